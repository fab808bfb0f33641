adjoin range --help
