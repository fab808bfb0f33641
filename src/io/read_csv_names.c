/* SPDX-License-Identifier: MIT
 *
 * What the name of a column says about it. Only letters and digits are compared, in lower case, so "RA_J2000", "ra
 * j2000" and "RAJ2000" are the same name.
 */
#include "io/read_csv_names.h"

#include <ctype.h>
#include <string.h>

enum { PLAIN_ROOM = 32 };

/* Letters and digits in lower case, up to stop; false if there are more than fit, or letters beyond ASCII. */
static bool make_plain(const char *begin, const char *stop, char plain[PLAIN_ROOM]) {
  size_t length = 0;
  for (const char *p = begin; p < stop; p++) {
    unsigned char c = (unsigned char)*p;
    if (c >= 0x80) return false;
    if (!isalnum(c)) continue;
    if (length + 1 == PLAIN_ROOM) return false;
    plain[length++] = (char)tolower(c);
  }
  plain[length] = 0;
  return true;
}

static bool is_one_of(const char *word, const char *const *list) {
  for (; *list; list++)
    if (!strcmp(word, *list)) return true;
  return false;
}

/* ---- Longitude and latitude --------------------------------------------------------------------------------- */

static const char *const longitudes[] = {
    "lon",  "lng",    "long",           "longitude",  "decimallongitude", "ra",       "raj", "glon",
    "elon", "geolon", "rightascension", "alphaj2000", "alphawinj2000",    "alphasky", NULL};
static const char *const latitudes[] = {"lat",    "latitude",   "decimallatitude", "dec",      "de",
                                        "dej",    "decl",       "declination",     "glat",     "elat",
                                        "geolat", "deltaj2000", "deltawinj2000",   "deltasky", NULL};
/* Words that may follow a name or stand in brackets: degrees, and systems of coordinates. */
static const char *const additions[] = {
    "deg",         "degs",         "degree",   "degrees",        "d",    "dd",    "j2000", "2000",
    "icrs",        "fk5",          "wgs84",    "epsg4326",       "mean", "stack", "north", "east",
    "degreeseast", "degreesnorth", "degj2000", "decimaldegrees", NULL};

/* Removes one of the additions from the end of the word; false if it has none. */
static bool cut_addition(char *word) {
  size_t length = strlen(word);
  for (const char *const *a = additions; *a; a++) {
    size_t own = strlen(*a);
    /* "d" alone would turn "rad" into "ra". */
    if (own > 1 && length > own && !strcmp(word + length - own, *a)) {
      word[length - own] = 0;
      return true;
    }
  }
  return false;
}

adji_geo adji_csv_geo_of(const char *begin, const char *end) {
  char word[PLAIN_ROOM], unit[PLAIN_ROOM];
  const char *bracket = begin;
  while (bracket < end && !strchr("([{", *bracket))
    bracket++;
  if (!make_plain(begin, bracket, word) || !make_plain(bracket, end, unit)) return ADJI_GEO_NONE;
  if (*unit && !is_one_of(unit, additions)) return ADJI_GEO_NONE;
  do {
    if (is_one_of(word, longitudes)) return ADJI_GEO_LONGITUDE;
    if (is_one_of(word, latitudes)) return ADJI_GEO_LATITUDE;
  } while (cut_addition(word));
  return ADJI_GEO_NONE;
}

/* ---- Ids ---------------------------------------------------------------------------------------------------- */

static const char *const ids[] = {
    "id",       "ids",      "idx",        "index",   "ix",         "no",        "nr",       "num",      "number",
    "row",      "rowid",    "rownum",     "rowno",   "rownr",      "rownumber", "rowindex", "rowname",  "rownames",
    "line",     "lineno",   "objid",      "object",  "objectid",   "obj",       "source",   "sourceid", "star",
    "starid",   "particle", "particleid", "pointid", "pid",        "gid",       "fid",      "oid",      "ogcfid",
    "osmid",    "uid",      "uuid",       "guid",    "key",        "pk",        "seq",      "sequence", "serial",
    "name",     "names",    "label",      "labels",  "identifier", "recno",     "fips",     "zip",      "zipcode",
    "postcode", "n",        NULL};

bool adji_csv_is_id_name(const char *begin, const char *end) {
  char word[PLAIN_ROOM];
  size_t length = (size_t)(end - begin);
  if (!length) return true;
  /* ".._id", "..-ID", ".. id", and "..Id" or "..ID" after a lower-case letter; not "grid". */
  if (length > 2 && tolower((unsigned char)end[-2]) == 'i' && tolower((unsigned char)end[-1]) == 'd') {
    unsigned char before = (unsigned char)end[-3];
    if (ispunct(before) || before == ' ' || (islower(before) && end[-2] == 'I')) return true;
  }
  if (!make_plain(begin, end, word)) return false;
  return is_one_of(word, ids) || !strncmp(word, "unnamed", 7);
}
