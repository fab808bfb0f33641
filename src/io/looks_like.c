/* SPDX-License-Identifier: MIT
 *
 * Recognises files that are not tables of text. Otherwise a page of HTML or an array of JSON could be taken for a
 * header without rows, or for a misspelt number.
 */
#include "io/looks_like.h"

#include <string.h>
#include <strings.h>

enum { LOOKED_AT = 4096 };

typedef struct kind {
  const char *magic;
  size_t length;
  const char *name;
} kind;

#define KIND(magic, name) \
  { magic, sizeof magic - 1, name }

/* Files that are known by their first bytes. */
static const kind kinds[] = {
    KIND("\xff\xfe\0\0", "UTF-32 text (save it as UTF-8)"),
    KIND("\xff\xfe", "UTF-16 text (save it as UTF-8)"),
    KIND("\xfe\xff", "UTF-16 text (save it as UTF-8)"),
    KIND("%PDF-", "a PDF document"),
    KIND("{\\rtf", "an RTF document"),
    KIND("PK\3\4", "a zip archive, perhaps .xlsx or .npz"),
    KIND("\xd0\xcf\x11\xe0", "an Excel or Word file (.xls, .doc)"),
    KIND("PAR1", "a Parquet file"),
    KIND("ARROW1", "an Arrow file"),
    KIND("FEA1", "a Feather file"),
    KIND("Obj\1", "an Avro file"),
    KIND("SQLite format 3", "an SQLite database"),
    KIND("SIMPLE  =", "a FITS file"),
    KIND("\x89HDF\r\n", "an HDF5 file (.h5)"),
    KIND("\x93NUMPY", "a NumPy array (.npy)"),
    KIND("CDF\1", "a NetCDF file"),
    KIND("CDF\2", "a NetCDF file"),
    KIND("MATLAB 5.0", "a MATLAB file"),
    KIND("LASF", "a LAS point cloud"),
    KIND("ply\n", "a PLY file"),
    KIND("\0\0\x27\x0a", "a shapefile"),
    KIND("\x1f\x8b", "a gzip file"),
    KIND("BZh9", "a bzip2 file"),
    KIND("\xfd\x37zXZ", "an xz file"),
    KIND("\x28\xb5\x2f\xfd", "a zstd file"),
    KIND("7z\xbc\xaf", "a 7z archive"),
    KIND("Rar!", "a RAR archive"),
    KIND("\x89PNG", "a PNG image"),
    KIND("GIF8", "a GIF image"),
    KIND("\xff\xd8\xff", "a JPEG image"),
    KIND("II*\0", "a TIFF image"),
    KIND("MM\0*", "a TIFF image"),
    KIND("\x7f"
         "ELF",
         "a program"),
};

/* Documents in markup languages, by a word near their beginning. */
static const kind marked_up[] = {KIND("<!doctype html", "HTML"),
                                 KIND("<html", "HTML"),
                                 KIND("<votable", "a VOTable"),
                                 KIND("<kml", "KML"),
                                 KIND("<gpx", "GPX"),
                                 KIND("<svg", "an SVG image"),
                                 KIND("<body", "HTML"),
                                 KIND("<table", "HTML")};

static const char *mark_up_of(const char *p, const char *end) {
  for (; p < end; p++)
    for (size_t i = 0; *p == '<' && i < sizeof marked_up / sizeof *marked_up; i++)
      if ((size_t)(end - p) >= marked_up[i].length && !strncasecmp(p, marked_up[i].magic, marked_up[i].length))
        return marked_up[i].name;
  return "XML or HTML";
}

/* Whether a JSON array begins here. A header may also begin with a bracket, so a JSON value must follow it. */
static bool begins_array(const char *p, const char *end) {
  for (p++; p < end && strchr(" \t\r\n", *p) && *p; p++)
    ;
  return p < end && *p && strchr("{[]\"-0123456789", *p);
}

const char *adji_looks_like(const adji_source *source) {
  size_t head;
  const char *p = (const char *)adji_source_head(source, &head), *end = p + head; /* before the file is loaded */
  if (source->bytes) {
    p = (const char *)source->bytes;
    end = p + (source->size < LOOKED_AT ? source->size : LOOKED_AT);
  }
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if ((size_t)(end - p) >= kinds[i].length && !memcmp(p, kinds[i].magic, kinds[i].length)) return kinds[i].name;
  if (p < end && memchr(p, 0, (size_t)(end - p))) {
    /* Every other byte of plain text in UTF-16 is 0. */
    return end - p >= 4 && !p[0] + !p[1] == 1 && !p[2] == !p[0] && !p[3] == !p[1] ? "UTF-16 text (save it as UTF-8)"
                                                                                  : "a binary file";
  }
  if (end - p >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) p += 3; /* the UTF-8 byte order mark */
  while (p < end && strchr(" \t\r\n", *p))
    p++;
  if (p == end) return NULL;
  if (*p == '<') return mark_up_of(p, end);
  return *p == '{' || (*p == '[' && begins_array(p, end)) ? "JSON" : NULL;
}
