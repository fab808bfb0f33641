/* SPDX-License-Identifier: MIT
 *
 * Points from a generator: resolves the name, checks the options, makes the rows in parallel. The points depend on the
 * options only, not on the machine, the instruction set or the threads.
 *
 * Names of published sets are kind, dimension and size in one word: "Unif2D2M", "Syn16D2M". The papers' synthetic sets
 * of 16 to 64 dimensions ("Syn") are exponential with lambda 40, as "Expo" is. Their real sets have their own names
 * ("GAIA"), which stand for imitations (generate_papers.c).
 */
#include "data/generate.h"

#include <math.h>
#include <string.h>
#include <strings.h>

ADJI_DEFINE_INIT(adj_generate_options, .seed = 1)

/* ---- Names and options -------------------------------------------------------------------------------- */

/* Reads a number at *at, and advances *at past it; 0 if there is none or it exceeds limit. */
static uint64_t take_number(const char **at, uint64_t limit) {
  uint64_t value = 0;
  for (; **at >= '0' && **at <= '9'; ++*at) {
    value = value * 10 + (uint64_t)(**at - '0');
    if (value > limit) return 0;
  }
  return value;
}

static uint64_t take_unit(const char **at) {
  char unit = **at;
  if (unit == 'K' || unit == 'k') return ++*at, 1000;
  if (unit == 'M' || unit == 'm') return ++*at, 1000000;
  return 0;
}

bool adji_published_find(const char *name, adji_published_set *set) {
  static const char *const families[] = {
      "unif", "expo", "syn", "clusters", "normal", "sphere",      "lattice",   "codes",      "repeats", "scales",
      "flat", "gaia", "osm", "sw",       "sdss",   "cooctexture", "colorhist", "layouthist", "susy",    "songs"};
  if (adji_paper_set(name, set)) return true;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
    size_t length = strlen(families[f]);
    if (strncasecmp(name, families[f], length)) continue;
    const char *at = name + length;
    uint64_t dim = take_number(&at, 1u << 24);
    if (!dim || (*at != 'D' && *at != 'd')) return false;
    at++;
    uint64_t count = take_number(&at, ADJ_MAX_COUNT);
    count *= take_unit(&at);
    if (!count || *at) return false;
    set->generator = strcmp(families[f], "syn") ? families[f] : "expo";
    set->dim = (uint32_t)dim;
    set->count = count;
    return true;
  }
  return false;
}

/* The default number of centres is about sqrt(count). */
static uint32_t default_clusters(uint64_t count) {
  double root = sqrt((double)count);
  return root < 1 ? 1 : (uint32_t)root;
}

/* Resolves the name. A published set provides count and dim if the caller gives none. */
static adj_status resolve_name(adj_generate_options *options, const adji_generator_kind **kind) {
  if (!options->name) return adji_fail(ADJ_E_ARGUMENT, "name: must not be NULL");
  adji_published_set set = {.generator = options->name};
  if (adji_published_find(options->name, &set)) {
    if (!options->count) options->count = set.count;
    if (!options->dim) options->dim = set.dim;
  }
  *kind = adji_generator_find(set.generator);
  if (*kind) return ADJ_OK;
  return adji_fail(
      ADJ_E_ARGUMENT,
      "name: \"%s\" is not a kind of points; there are unif, expo, clusters, codes, normal, sphere, lattice, "
      "duplicates, repeats, scales, flat, published sets such as Expo4D10M, and imitations of GAIA, OSM, "
      "SW2DA, SW2DB, SW3DA, SW3DB, SDSS, CoocTexture, ColorHist, LayoutHist, SuSy and Songs",
      options->name);
}

static adj_status check_dim(const adj_generate_options *options, const uint32_t dims[2]) {
  if (!options->dim)
    return adji_fail(ADJ_E_ARGUMENT, "dim: \"%s\" does not say how many dimensions, so a dimension is needed",
                     options->name);
  if (!dims[0] || (options->dim >= dims[0] && options->dim <= dims[1])) return ADJ_OK;
  if (dims[0] == dims[1])
    return adji_fail(ADJ_E_ARGUMENT, "dim: \"%s\" has %u dimensions, not %u", options->name, dims[0], options->dim);
  return adji_fail(ADJ_E_ARGUMENT, "dim: \"%s\" has %u to %u dimensions, not %u", options->name, dims[0], dims[1],
                   options->dim);
}

static adj_status check_options(const adj_generate_options *options, const adji_generator_kind *kind) {
  if (!options->count)
    return adji_fail(ADJ_E_ARGUMENT, "count: \"%s\" does not say how many points, so a count is needed", options->name);
  adj_status status = check_dim(options, kind->dims);
  if (status) return status;
  /* Below 0.01 more than 99 of 100 draws would be outside [0, 1]. */
  if (!(options->lambda >= 0.01 && options->lambda <= 1e9))
    return adji_fail(ADJ_E_ARGUMENT, "lambda: %g is not between 0.01 and 1e9", options->lambda);
  return adji_check_shape(options->type, options->dim, options->count);
}

/* ---- Rows --------------------------------------------------------------------------------------------- */

static void make_slice(void *user, uint64_t begin, uint64_t end) {
  const adji_generator *g = user;
  for (uint64_t row = begin; row < end; row++)
    g->kind->row(g, row);
}

/* Small slices, so that a cancel is noticed soon. A slice has at least one row. */
static adj_status make_rows(adj_ctx *ctx, adji_generator *g) {
  uint64_t slices = g->count * g->dim / 65536 + 1;
  return adji_loop_slices(ctx, g->count, slices < g->count ? slices : g->count, make_slice, g);
}

static adj_status make_dataset(adj_ctx *ctx, adji_generator *g, adj_dataset **out) {
  uint64_t begin = adji_now_ns();
  adj_status status = g->kind->prepare ? g->kind->prepare(ctx, g) : ADJ_OK;
  if (status) return status;
  g->data = adji_alloc(&ctx->memory, adji_mul(g->count, g->dim), adji_type_size(g->type), "points");
  if (!g->data) {
    status = ADJ_E_MEMORY;
    goto free_weights;
  }
  status = make_rows(ctx, g);
  if (status) goto free_points;
  adji_trace(ctx, "generate", 0, begin, g->count);
  adji_dataset_parts parts = {.type = g->type,
                              .dim = g->dim,
                              .count = g->count,
                              .data = g->data,
                              .release = adji_release_block,
                              .owner = g->data,
                              .owner_bytes = g->count * g->dim * adji_type_size(g->type)};
  status = adji_dataset_adopt(ctx, &parts, out);
free_points:
  if (status) adji_free(&ctx->memory, g->data);
free_weights:
  adji_free(&ctx->memory, g->cumulative);
  adji_free(&ctx->memory, g->axes);
  return status;
}

static adj_status generate(adj_ctx *ctx, const adj_generate_options *options, adj_dataset **out) {
  adj_generate_options copy;
  adj_generate_options_init(&copy, sizeof copy);
  adj_status status = adji_take_struct(&copy, sizeof copy, options, "adj_generate_options");
  if (status) return status;
  const adji_generator_kind *kind = NULL;
  status = resolve_name(&copy, &kind);
  if (status) return status;
  if (!copy.type) copy.type = ADJ_F32;
  if (copy.lambda == 0) copy.lambda = 40;
  status = check_options(&copy, kind);
  if (status) return status;
  adji_generator generator = {.kind = kind,
                              .type = copy.type,
                              .dim = copy.dim,
                              .count = copy.count,
                              .key = adji_mix(copy.seed),
                              .lambda = copy.lambda,
                              .clusters = copy.clusters ? copy.clusters : default_clusters(copy.count)};
  return make_dataset(ctx, &generator, out);
}

adj_status adj_dataset_generate(adj_ctx *ctx, const adj_generate_options *options, adj_dataset **out) {
  if (!ctx || !options || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx, options and out: none may be NULL");
  adji_call outer = adji_call_begin(&ctx->cancels);
  adj_status status = generate(ctx, options, out);
  adji_call_set(outer);
  return status;
}
