"""SearchAD: rare things in driving scenes."""
