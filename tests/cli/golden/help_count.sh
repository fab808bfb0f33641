adjoin count --help
