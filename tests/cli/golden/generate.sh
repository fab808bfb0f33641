adjoin generate unif -n 4 -d 2 -o -
adjoin generate unif -n 4 -d 2 -o - --type f64 --seed 2 --format tsv --quiet
adjoin generate lattice -n 9 -d 2 -o lattice.npy
adjoin info lattice.npy
