/* Preloaded into a process, this records what it does to the files below DISK_ROOT, in the order it does it.

   DISK_LOG gets one record a call: write, truncate, sync, create, name, unname, mkdir, with the bytes that were written.
   What SQLite does in C is recorded as what Python does is. Files of shared memory (-shm) are left out: they are mapped,
   and made anew by whoever opens the database next. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static char root[4096];
static size_t root_length;
static int log_file = -1;
static pid_t owner;

#define REAL(name, type) ((type)dlsym(RTLD_NEXT, name))
typedef ssize_t (*write_type)(int, const void *, size_t);
typedef ssize_t (*pwrite_type)(int, const void *, size_t, off64_t);
typedef int (*sync_type)(int);
typedef int (*truncate_type)(int, off64_t);
typedef int (*open_type)(const char *, int, ...);
typedef int (*openat_type)(int, const char *, int, ...);
typedef int (*rename_type)(const char *, const char *);
typedef int (*path_type)(const char *);
typedef int (*at_type)(int, const char *, int);
typedef int (*mkdir_type)(const char *, mode_t);

static int ready(void) {
    if (log_file < 0) {
        const char *where = getenv("DISK_ROOT"), *kept = getenv("DISK_LOG");
        if (!where || !kept) return 0;
        snprintf(root, sizeof root, "%s/", where);
        root_length = strlen(root);
        log_file = REAL("open", open_type)(kept, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        owner = getpid();
    }
    return log_file >= 0 && owner == getpid();
}

static int is_ours(const char *path) {
    size_t length = strlen(path);
    if (length >= 4 && !strcmp(path + length - 4, "-shm")) return 0;
    return !strncmp(path, root, root_length) || (length + 1 == root_length && !strncmp(path, root, length));
}

static void record(char what, uint64_t inode, int64_t offset, const char *path, const void *data, uint32_t size) {
    uint32_t length = path ? strlen(path) : 0;
    char head[25];
    head[0] = what;
    memcpy(head + 1, &inode, 8);
    memcpy(head + 9, &offset, 8);
    memcpy(head + 17, &length, 4);
    memcpy(head + 21, &size, 4);
    write_type put = REAL("write", write_type);
    pthread_mutex_lock(&turn);
    if (put(log_file, head, 25) < 0 || (length && put(log_file, path, length) < 0)) abort();
    for (uint32_t done = 0; done < size;) {
        ssize_t wrote = put(log_file, (const char *)data + done, size - done);
        if (wrote < 0) abort();
        done += wrote;
    }
    pthread_mutex_unlock(&turn);
}

/* The path of an open file below the root, or 0. */
static int path_of(int file, char *path, size_t room) {
    char link[64];
    if (!ready() || file == log_file) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, room - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

static uint64_t inode_of(int file) {
    struct stat64 found;
    return fstat64(file, &found) ? 0 : found.st_ino;
}

static void wrote(int file, const void *data, ssize_t count, int64_t offset) {
    char path[4096];
    int before = errno;
    if (count > 0 && path_of(file, path, sizeof path)) record('W', inode_of(file), offset, 0, data, count);
    errno = before;
}

ssize_t write(int file, const void *data, size_t count) {
    char path[4096];
    int64_t offset = -1;
    int before = errno;
    if (path_of(file, path, sizeof path)) {
        offset = lseek64(file, 0, SEEK_CUR);
        if (fcntl(file, F_GETFL) & O_APPEND) offset = lseek64(file, 0, SEEK_END);
    }
    errno = before;
    ssize_t done = REAL("write", write_type)(file, data, count);
    if (offset >= 0) wrote(file, data, done, offset);
    return done;
}

ssize_t pwrite64(int file, const void *data, size_t count, off64_t offset) {
    ssize_t done = REAL("pwrite64", pwrite_type)(file, data, count, offset);
    wrote(file, data, done, offset);
    return done;
}
ssize_t pwrite(int file, const void *data, size_t count, off_t offset) { return pwrite64(file, data, count, offset); }

/* Copies inside the kernel are refused; whoever wants one then reads and writes. */
ssize_t sendfile(int out, int in, off_t *offset, size_t count) { errno = EINVAL; return -1; }
ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) { errno = EINVAL; return -1; }
ssize_t copy_file_range(int in, off64_t *a, int out, off64_t *b, size_t count, unsigned flags) { errno = EXDEV; return -1; }

static int synced(const char *name, int file) {
    char path[4096];
    int done = REAL(name, sync_type)(file), before = errno;
    if (!done && path_of(file, path, sizeof path)) record('S', inode_of(file), 0, path, 0, 0);
    errno = before;
    return done;
}
int fsync(int file) { return synced("fsync", file); }
int fdatasync(int file) { return synced("fdatasync", file); }

int ftruncate64(int file, off64_t size) {
    char path[4096];
    int done = REAL("ftruncate64", truncate_type)(file, size), before = errno;
    if (!done && path_of(file, path, sizeof path)) record('T', inode_of(file), size, 0, 0, 0);
    errno = before;
    return done;
}
int ftruncate(int file, off_t size) { return ftruncate64(file, size); }

static int opened(int file, int flags, int was_there) {
    char path[4096];
    int before = errno;
    if (file >= 0 && (flags & (O_CREAT | O_TRUNC)) && path_of(file, path, sizeof path)) {
        if (!was_there) record('C', inode_of(file), 0, path, 0, 0);
        else if (flags & O_TRUNC) record('T', inode_of(file), 0, 0, 0, 0);
    }
    errno = before;
    return file;
}

static mode_t mode_of(int flags, va_list more) { return flags & O_CREAT ? va_arg(more, mode_t) : 0; }

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    int was_there = !faccessat(AT_FDCWD, path, F_OK, 0);
    return opened(REAL("open64", open_type)(path, flags, mode), flags, was_there);
}
int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return open64(path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    int was_there = !faccessat(folder, path, F_OK, 0);
    return opened(REAL("openat64", openat_type)(folder, path, flags, mode), flags, was_there);
}
int openat(int folder, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return openat64(folder, path, flags, mode);
}

static void named(char what, const char *path) {
    struct stat64 found;
    int before = errno;
    if (ready() && is_ours(path)) record(what, stat64(path, &found) ? 0 : found.st_ino, 0, path, 0, 0);
    errno = before;
}

int rename(const char *from, const char *to) {
    int done = REAL("rename", rename_type)(from, to);
    if (!done) {
        named('L', to);
        named('U', from);
    }
    return done;
}
int renameat(int a, const char *from, int b, const char *to) {
    if (a == AT_FDCWD && b == AT_FDCWD) return rename(from, to);
    errno = ENOSYS;
    return -1;
}
int unlink(const char *path) {
    int done = REAL("unlink", path_type)(path);
    if (!done) named('U', path);
    return done;
}
int unlinkat(int folder, const char *path, int flags) {
    char whole[8192], link[64];
    int done = REAL("unlinkat", at_type)(folder, path, flags), before = errno;
    if (!done && path[0] != '/' && folder != AT_FDCWD) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, whole, 4096);
        if (length > 0) {
            snprintf(whole + length, sizeof whole - length, "/%s", path);
            named(flags & AT_REMOVEDIR ? 'X' : 'U', whole);
        }
    } else if (!done) named(flags & AT_REMOVEDIR ? 'X' : 'U', path);
    errno = before;
    return done;
}
int rmdir(const char *path) {
    int done = REAL("rmdir", path_type)(path);
    if (!done) named('X', path);
    return done;
}
int mkdir(const char *path, mode_t mode) {
    int done = REAL("mkdir", mkdir_type)(path, mode);
    if (!done) named('M', path);
    return done;
}
