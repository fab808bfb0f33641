adjoin generate --help
