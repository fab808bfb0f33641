adjoin dbscan --help
