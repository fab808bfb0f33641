/* SPDX-License-Identifier: MIT
 *
 * Arrays as numpy.save writes them: a magic number, a version, and a header that is a Python dict,
 * {'descr': '<f4', 'fortran_order': False, 'shape': (1000, 3), }, then the values.
 */
#include <string.h>

#include "io/read.h"
#include "io/read_table.h"

/* The longest header of version 1. Later versions are for arrays with many named fields. */
enum { MOST_HEADER = UINT16_MAX };

typedef struct header {
  adji_table table;
  bool has_descr, has_order, has_shape;
} header;

/* The unread part of the header's text. */
typedef struct cursor {
  const char *at, *end;
} cursor;

/* ---- Tokens of a dict ----------------------------------------------------------------------------------- */

static void skip_blanks(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n'))
    c->at++;
}

static bool take(cursor *c, const char *wanted) {
  size_t length = strlen(wanted);
  skip_blanks(c);
  if ((size_t)(c->end - c->at) < length || memcmp(c->at, wanted, length) != 0) return false;
  c->at += length;
  return true;
}

/* A string in single or double quotes. Valid headers of arrays of numbers have no escapes. */
static bool take_string(cursor *c, cursor *text) {
  skip_blanks(c);
  char quote = c->at < c->end ? *c->at : 0;
  if (quote != '\'' && quote != '"') return false;
  const char *close = memchr(c->at + 1, quote, (size_t)(c->end - c->at - 1));
  if (!close) return false;
  *text = (cursor){c->at + 1, close};
  c->at = close + 1;
  return true;
}

static bool is_text(const cursor *text, const char *word) {
  return (size_t)(text->end - text->at) == strlen(word) && !memcmp(text->at, word, strlen(word));
}

/* A size; old writers append an L. */
static bool take_size(cursor *c, uint64_t *size) {
  skip_blanks(c);
  if (!adji_take_count(&c->at, c->end, size)) return false;
  if (c->at < c->end && *c->at == 'L') c->at++;
  return true;
}

/* ---- The three keys ----------------------------------------------------------------------------------------- */

static adj_status bad_header(const cursor *c) {
  char text[48];
  return adji_fail(ADJ_E_FORMAT, "npy: the header is not understood at \"%s\"", adji_excerpt(c->at, c->end, text));
}

static adj_status take_descr(cursor *c, header *h) {
  static const struct {
    const char *code;
    adji_stored stored;
  } codes[] = {{"f2", ADJI_F16}, {"f4", ADJI_F32}, {"f8", ADJI_F64}, {"i1", ADJI_I8},
               {"u1", ADJI_U8},  {"i2", ADJI_I16}, {"u2", ADJI_U16}, {"i4", ADJI_I32},
               {"u4", ADJI_U32}, {"i8", ADJI_I64}, {"u8", ADJI_U64}, {"b1", ADJI_U8}};
  cursor text;
  char shown[48];
  if (take(c, "["))
    return adji_fail(ADJ_E_FORMAT, "npy: the array has named fields; points are read from a plain array");
  if (!take_string(c, &text)) return bad_header(c);
  char order = text.at < text.end ? *text.at : 0;
  cursor code = {text.at + 1, text.end};
  for (size_t i = 0; order && strchr("<>|=", order) && i < sizeof codes / sizeof codes[0]; i++)
    if (is_text(&code, codes[i].code)) {
      h->table.stored = codes[i].stored;
      h->table.swapped = adji_stored_size(codes[i].stored) > 1 && order == '>';
      h->has_descr = true;
      return ADJ_OK;
    }
  return adji_fail(ADJ_E_FORMAT, "npy: values of type \"%s\" are not coordinates; f2 to f8, i1 to u8 and b1 are",
                   adji_excerpt(text.at, text.end, shown));
}

static adj_status take_order(cursor *c, header *h) {
  h->table.by_column = take(c, "True");
  if (!h->table.by_column && !take(c, "False")) return bad_header(c);
  h->has_order = true;
  return ADJ_OK;
}

static adj_status take_shape(cursor *c, header *h) {
  uint64_t sizes[2] = {0, 1}, size;
  uint32_t many = 0;
  skip_blanks(c);
  cursor whole = *c;
  if (!take(c, "(")) return bad_header(c);
  while (!take(c, ")")) {
    if (!take_size(c, &size)) return bad_header(c);
    if (many < 2) sizes[many] = size;
    many++;
    if (take(c, ",")) continue;
    if (!take(c, ")")) return bad_header(c);
    break;
  }
  char shown[48];
  adji_excerpt(whole.at, c->at, shown);
  if (many < 1 || many > 2)
    return adji_fail(ADJ_E_FORMAT, "npy: the array has %u dimensions, %s; points are read from 1 or 2", many, shown);
  if (sizes[1] < 1 || sizes[1] > UINT32_MAX)
    return adji_fail(ADJ_E_FORMAT, "npy: the shape %s has rows of %llu values", shown, (unsigned long long)sizes[1]);
  h->table.count = sizes[0];
  h->table.dim = (uint32_t)sizes[1];
  h->has_shape = true;
  return ADJ_OK;
}

static adj_status parse_dict(cursor *c, header *h) {
  if (!take(c, "{")) return bad_header(c);
  while (!take(c, "}")) {
    cursor key;
    if (!take_string(c, &key) || !take(c, ":")) return bad_header(c);
    adj_status status = is_text(&key, "descr")           ? take_descr(c, h)
                        : is_text(&key, "fortran_order") ? take_order(c, h)
                        : is_text(&key, "shape")         ? take_shape(c, h)
                                                         : bad_header(&key);
    if (status) return status;
    if (take(c, ",")) continue;
    if (!take(c, "}")) return bad_header(c);
    break;
  }
  skip_blanks(c);
  if (c->at != c->end) return bad_header(c);
  if (h->has_descr && h->has_order && h->has_shape) return ADJ_OK;
  return adji_fail(ADJ_E_FORMAT, "npy: the header has no %s",
                   !h->has_descr   ? "descr"
                   : !h->has_order ? "fortran_order"
                                   : "shape");
}

adj_status adji_read_npy(adji_source *source, const adj_open_options *options, int variant, adji_dataset_parts *parts) {
  (void)variant;
  size_t bytes;
  const unsigned char *b = adji_source_head(source, &bytes);
  if (source->size < 6 || memcmp(b, "\x93NUMPY", 6) != 0)
    return adji_fail(ADJ_E_FORMAT, "npy: does not begin like a .npy file");
  if (source->size < 12) return adji_fail(ADJ_E_FORMAT, "npy: the file ends within its header");
  if (b[6] < 1 || b[6] > 3)
    return adji_fail(ADJ_E_FORMAT, "npy: version %u.%u is not one of 1.0, 2.0 and 3.0", b[6], b[7]);
  uint64_t begin = b[6] == 1 ? 10 : 12;
  uint64_t length = b[6] == 1 ? adji_little_u32(b + 8) & 0xffff : adji_little_u32(b + 8);
  if (length > MOST_HEADER)
    return adji_fail(ADJ_E_FORMAT, "npy: its header of %llu bytes is longer than that of any array of numbers",
                     (unsigned long long)length);
  if (length > source->size - begin)
    return adji_fail(ADJ_E_FORMAT, "npy: the file ends within its header: %llu of %llu bytes are present",
                     (unsigned long long)(source->size - begin), (unsigned long long)length);
  adj_status status = begin + length > bytes ? adji_source_load(source, false) : ADJ_OK;
  if (status) return status;
  b = begin + length > bytes ? source->bytes : b;
  header h = {.table = {.offset = begin + length}};
  cursor text = {(const char *)b + begin, (const char *)b + begin + length};
  while (text.end > text.at && (text.end[-1] == ' ' || text.end[-1] == '\n'))
    text.end--; /* padding */
  status = parse_dict(&text, &h);
  if (status) return status;
  status = adji_check_length(source, h.table.offset, h.table.count, h.table.dim * adji_stored_size(h.table.stored));
  if (status) return status;
  return adji_read_table(source, options, &h.table, parts);
}
