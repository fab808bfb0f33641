# The library names its arguments; the program's messages name the options.
printf 'name,x,y\nlamp,1,0\nchair,5,2\n' >room.csv
adjoin generate unif -n 10 -d 2 -o p.npy -q
head -c 24 /dev/zero >p.raw
refused() {
  echo "== adjoin $*" >&2
  adjoin "$@" -q && return 1 || echo "exit $?" >&2
}
refused range -r 9 p.npy --max-pairs 50
refused range -r 9 p.npy --max-pairs 50 --backend reference
refused knn -k 3 p.npy --max-pairs 5
refused range -r inf p.npy
refused range -r 1 room.csv --id name --columns x,z
refused range -r 1 room.csv --id label
refused range -r 1 room.csv
refused range -r 1 p.npy --input-format xlsx
refused range -r 1 p.raw
refused range -r 1 p.raw --shape f33:3
refused range -r 1 p.npy --box 1,1,1
refused range -r 1 p.npy --metric cosine --box 1
refused range -r 1 p.npy --metric lp --p 0.5
refused range -r 1 room.csv --metric haversine --columns x
refused range -r 1 p.npy --algorithm tree
refused knn -k 1 p.npy --algorithm grid
refused knn -k 1 p.npy -o near.npy --distances near.npy
refused range -r 1 p.npy -o '' --format csv
refused generate blobs -n 5 -d 2 -o x.npy
refused generate unif -d 2 -o x.npy
refused generate unif -n 5 -o x.npy
refused generate expo -n 5 -d 2 --lambda 0.001 -o x.npy
refused generate lattice -n 1G -d 1 --type f32 -o x.npy
# A file whose name is that of an argument stays a file.
cp room.csv columns
adjoin range -r 1 columns --id name
refused range -r 1 columns --id name --columns z
refused range -r 1 p.npy -o p
