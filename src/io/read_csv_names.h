/* SPDX-License-Identifier: MIT
 *
 * What the name of a column says about it.
 */
#ifndef ADJI_READ_CSV_NAMES_H
#define ADJI_READ_CSV_NAMES_H

#include "data/dataset.h"

/* A longitude or a latitude, by a name in wide use ("lon", "Latitude", "RA_ICRS", "dec (deg)"); otherwise
 * ADJI_GEO_NONE. Names of angles in hours or radians are not recognised: their unit would have to be known. */
adji_geo adji_csv_geo_of(const char *begin, const char *end);

/* Whether the name is for numbers or names of rows ("id", "source_id", "Unnamed: 0"), not for a coordinate. An empty
 * name is: many programs write row numbers without a column name. */
bool adji_csv_is_id_name(const char *begin, const char *end);

#endif
