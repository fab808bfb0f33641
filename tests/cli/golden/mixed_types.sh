adjoin generate unif -n 10 -d 2 -o a.npy --quiet
adjoin generate unif -n 10 -d 2 -o b.npy --quiet --type f64
adjoin range -r 1 a.npy b.npy
