/* SPDX-License-Identifier: MIT
 *
 * Recognises files that are not tables of text, for messages.
 */
#ifndef ADJI_LOOKS_LIKE_H
#define ADJI_LOOKS_LIKE_H

#include "io/source.h"

/* "JSON", "a PDF document", ...; NULL if the bytes may be a table of text. Looks at the first bytes only. */
const char *adji_looks_like(const adji_source *source);

#endif
