# The plan and what happened, in words. Numbers are masked: estimates and times are not the same everywhere, and
# whether single evaluation is faster depends on the machine.
words() {
  adjoin "$@" --backend cpu --isa scalar --threads 2 --explain -q 2>&1 >/dev/null | sed 's/[0-9][0-9.]*\(e[-+][0-9]*\)\{0,1\}/N/g; s/N [KM]iB/N B/g; s/[-+]N/N/g'
}
adjoin generate clusters -n 20k -d 3 -o points.npy -q
adjoin generate unif -n 5k -d 3 -o others.npy -q
words range -r 0.001 points.npy --tuning single=on
words range -r 0.001 points.npy --tuning staged=on
words range -r 0.05 points.npy others.npy --box 1 --algorithm ego --tuning single=on
words knn -k 3 points.npy others.npy
