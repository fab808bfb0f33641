adjoin
