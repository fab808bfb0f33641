adjoin knn --help
