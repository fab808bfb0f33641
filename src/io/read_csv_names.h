/* SPDX-License-Identifier: MIT
 *
 * What the name of a column says about it.
 */
#ifndef ADJI_READ_CSV_NAMES_H
#define ADJI_READ_CSV_NAMES_H

#include "data/dataset.h"

/* A longitude or a latitude, by a name in wide use ("lon", "Latitude", "RA_ICRS", "dec (deg)"); otherwise
 * ADJI_GEO_NONE. Names of angles in hours or radians are not known: their unit would have to be. */
adji_geo adji_csv_geo_of(const char *begin, const char *end);

/* Whether it is a name for numbers or names of rows ("id", "source_id", "Unnamed: 0"), not for a coordinate. An empty
 * name is one: it stands above the row numbers that many programs write. */
bool adji_csv_is_id_name(const char *begin, const char *end);

#endif
