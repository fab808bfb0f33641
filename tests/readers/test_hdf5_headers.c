/* SPDX-License-Identifier: MIT
 *
 * Compares the declarations of src/io/hdf5_library.h with the headers of HDF5, if these are installed. The test passes
 * if it compiles.
 */
#include <hdf5.h>
#include <stdio.h>

#include "io/hdf5_library.h"

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)

SAME(sizeof(adji_hid), sizeof(hid_t));
SAME(sizeof(adji_hsize), sizeof(hsize_t));
SAME(sizeof(adji_hsize), sizeof(haddr_t));
SAME(sizeof(adji_herr), sizeof(herr_t));
SAME(sizeof(int), sizeof(htri_t));
SAME(sizeof(int), sizeof(H5Z_filter_t));
SAME(sizeof(int), sizeof(H5I_type_t));
SAME(sizeof(int), sizeof(H5T_class_t));
SAME(sizeof(int), sizeof(H5T_sign_t));
SAME(sizeof(int), sizeof(H5D_layout_t));
SAME(sizeof(int), sizeof(H5S_seloper_t));
SAME(sizeof(int), sizeof(H5_index_t));
SAME(sizeof(int), sizeof(H5_iter_order_t));
SAME(ADJI_H5_DEFAULT, H5P_DEFAULT);
SAME(ADJI_H5_DEFAULT, H5E_DEFAULT);
SAME(ADJI_H5_BY_NAME, H5_INDEX_NAME);
SAME(ADJI_H5_ASCENDING, H5_ITER_INC);
SAME(ADJI_H5_INFO_BASIC, H5O_INFO_BASIC);
SAME(ADJI_H5_IS_DATASET, H5I_DATASET);
SAME(ADJI_H5_INTEGER, H5T_INTEGER);
SAME(ADJI_H5_FLOAT, H5T_FLOAT);
SAME(ADJI_H5_SIGNED, H5T_SGN_2);
SAME(ADJI_H5_CONTIGUOUS, H5D_CONTIGUOUS);
SAME(ADJI_H5_CHUNKED, H5D_CHUNKED);
SAME(ADJI_H5_VIRTUAL, H5D_VIRTUAL);
SAME(ADJI_H5_SELECT_SET, H5S_SELECT_SET);

/* Every function exists in the headers under its name. */
#define DECLARED(result, name, parameters) SAME(sizeof(&H5##name), sizeof(void *));
ADJI_HDF5_FUNCTIONS(DECLARED)

int main(void) {
  printf("as in the headers of HDF5 %d.%d.%d\n", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
  return 0;
}
