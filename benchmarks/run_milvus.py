"""Starts a Milvus server of PyPI, on ports of its own so that others may run beside it: says `ready`, ends on SIGTERM.

python benchmarks/run_milvus.py FOLDER PORT ETCD_PORT ETCD_PEER_PORT
"""

import os
import signal
import sys
from pathlib import Path


def main(home: Path, port: int, etcd: int, peers: int) -> None:
    """Run until told to end."""
    from milvus import MilvusServer

    lines = [f"{key}-urls: http://127.0.0.1:{etcd}" for key in ("listen-client", "advertise-client")]
    lines += [f"{key}-urls: http://127.0.0.1:{peers}" for key in ("listen-peer", "initial-advertise-peer")]
    lines += ["name: default", f"initial-cluster: default=http://127.0.0.1:{peers}", ""]
    (home / "etcd.yaml").write_text("\n".join(lines), "utf-8")
    os.environ["ETCD_CONFIG_PATH"] = str(home / "etcd.yaml")
    server = MilvusServer(data_dir=str(home), proxy_port=port, etcd_port=etcd)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    server.start()
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
