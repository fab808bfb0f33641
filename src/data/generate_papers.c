/* SPDX-License-Identifier: MIT
 *
 * Imitations of the real data sets of the papers: not the data, but sets of the same size, dimension and range, whose
 * points are about as dense and as uneven. Constants were chosen so that the published radii find about as many
 * neighbours as the papers report (bench/data.md).
 *
 * A row is a random point of a fixed world: star clusters, cities and roads, receivers and survey stripes are functions
 * of the seed and of their number. So the rows of a small set are a sample of those of a large one. Each row draws its
 * numbers one after the other, from its own key.
 */
#include <strings.h>

#include "data/generate_draw.h"

/* ---- Draws ------------------------------------------------------------------------------------------------- */

typedef struct draws {
  uint64_t key, next;
} draws;

static draws draws_of(const adji_generator *g, unsigned purpose, uint64_t index) {
  return (draws){adji_key_of(g, purpose, index), 0};
}

static double uniform(draws *d) {
  return adji_unit(adji_draw(d->key, d->next++, 0));
}

static double between(draws *d, double low, double high) {
  return low + (high - low) * uniform(d);
}

static double normal(draws *d) {
  uint64_t attempt = 0;
  return adji_normal(d->key, d->next++, &attempt);
}

static double exponential(draws *d) {
  return -adji_ln(1 - uniform(d));
}

/* A two-sided exponential (Laplace) number. */
static double two_sided(draws *d) {
  double x = exponential(d);
  return uniform(d) < 0.5 ? -x : x;
}

/* In (-1, 1), of density 3/4 (1 - x^2): the middle one of three uniform numbers. */
static double dome(draws *d) {
  double a = between(d, -1, 1), b = between(d, -1, 1), c = between(d, -1, 1);
  double low = a < b ? a : b, high = a < b ? b : a;
  return c < low ? low : c > high ? high : c;
}

/* One of `many` objects of very different size, for a uniform u: object r is drawn about in proportion to r^(-2/3). */
static uint64_t ranked(double u, uint64_t many) {
  return (uint64_t)((double)many * (u * u * u));
}

/* A smooth field over the plane with values in [0, 1): hashed at whole coordinates, interpolated between them. */
static double field(const adji_generator *g, uint64_t layer, double x, double y) {
  double left = floor(x), below = floor(y), u = x - left, v = y - below;
  uint64_t key = adji_key_of(g, ADJI_FOR_FIELD, layer);
  double corner[2][2];
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++)
      corner[i][k] =
          adji_unit(adji_random(adji_random(key, (uint64_t)((int64_t)left + i)), (uint64_t)((int64_t)below + k)));
  u = u * u * (3 - 2 * u);
  v = v * v * (3 - 2 * v);
  return (corner[0][0] * (1 - u) + corner[1][0] * u) * (1 - v) + (corner[0][1] * (1 - u) + corner[1][1] * u) * v;
}

/* ---- Places ------------------------------------------------------------------------------------------------ */

/* Stars by galactic longitude and latitude, in degrees: a thin and a thick disc, denser towards longitude 0, a halo,
 * patches of dust, and 1,500 star clusters. */
static void gaia_row(const adji_generator *g, uint64_t row) {
  draws d = draws_of(g, ADJI_FOR_ROWS, row);
  double x, y, clear;
  do {
    double part = uniform(&d);
    if (part < 0.03) {
      draws c = draws_of(g, ADJI_FOR_CENTRES, ranked(uniform(&d), 1500));
      double u = uniform(&c), width = 0.02 + 0.4 * u * u;
      x = between(&c, -180, 180) + width * normal(&d);
      y = 6 * two_sided(&c) + width * normal(&d);
    } else {
      x = uniform(&d) < 0.45 ? 40 * two_sided(&d) : between(&d, -180, 180);
      y = part < 0.6 ? 6 * two_sided(&d) : part < 0.85 ? 20 * two_sided(&d) : 90 * dome(&d);
    }
    x -= 360 * floor((x + 180) / 360);
    clear = 0.6 * field(g, 0, x / 9, y / 3) + 0.4 * field(g, 1, x / 2, y);
  } while (y < -90 || y > 90 || uniform(&d) > 0.2 + 0.8 * clear);
  adji_put(g, row, 0, x);
  adji_put(g, row, 1, y);
}

/* The position at time t on a winding road from (0, 0) to (x, y): ten times over, the middle of each piece is moved
 * sideways. */
static void walk(uint64_t road, double t, double *x, double *y) {
  double fromx = 0, fromy = 0, tox = *x, toy = *y, aside = 0.35 * (fabs(*x) + fabs(*y));
  uint64_t piece = 1;
  for (int level = 0; level < 10; level++) {
    draws m = {adji_random(road, piece), 0};
    double middlex = 0.5 * (fromx + tox) + between(&m, -aside, aside);
    double middley = 0.5 * (fromy + toy) + between(&m, -aside, aside);
    aside *= 0.55;
    t *= 2;
    piece *= 2;
    if (t < 1) {
      tox = middlex;
      toy = middley;
    } else {
      fromx = middlex;
      fromy = middley;
      t -= 1;
      piece++;
    }
  }
  *x = fromx + t * (tox - fromx);
  *y = fromy + t * (toy - fromy);
}

/* Positions of GPS receivers, in degrees: 4,096 cities of very different size in 9 regions, each with 64 roads, of
 * which every eighth leads far out of the city. Some receivers stand still at the end of a road. Receiver errors are
 * added. */
static void osm_row(const adji_generator *g, uint64_t row) {
  draws d = draws_of(g, ADJI_FOR_ROWS, row);
  uint64_t city = ranked(uniform(&d), 4096), number = ranked(uniform(&d), 64);
  draws c = draws_of(g, ADJI_FOR_CENTRES, city), region = draws_of(g, ADJI_FOR_REGIONS, ranked(uniform(&c), 9));
  double x = between(&region, -140, 140) + 25 * dome(&c), y = between(&region, -35, 60) + 12 * dome(&c);
  double width = 0.35 / sqrt(1 + (double)city / 8);
  draws road = {adji_random(c.key, 1000 + number), 0};
  double reach = number % 8 == 7 ? 3 : width;
  double tox = reach * dome(&road), toy = reach * dome(&road);
  x += width * dome(&road);
  y += width * dome(&road);
  if (uniform(&d) < 0.95) walk(road.key, uniform(&d), &tox, &toy);
  adji_put(g, row, 0, x + tox + 5e-5 * normal(&d));
  adji_put(g, row, 1, y + toy + 5e-5 * normal(&d));
}

/* Total electron content: largest at the equator, smooth over the globe, with exponential noise. */
static double electrons(const adji_generator *g, draws *d, double x, double y) {
  double high = 1 - (y / 70) * (y / 70);
  return 4 + 14 * (high > 0 ? high : 0) + 9 * field(g, 0, x / 25, y / 15) + 1.7 * exponential(d);
}

/* Points, in degrees, where signals from satellites to receivers cross the ionosphere: 2,500 receivers in 40 regions,
 * with 16 arcs around each. */
static void sw_row(const adji_generator *g, uint64_t row) {
  draws d = draws_of(g, ADJI_FOR_ROWS, row);
  uint64_t receiver = ranked(uniform(&d), 2500), number = (uint64_t)(16 * uniform(&d));
  draws r = draws_of(g, ADJI_FOR_CENTRES, receiver), region = draws_of(g, ADJI_FOR_REGIONS, ranked(uniform(&r), 40));
  double x = between(&region, -150, 150) + 20 * dome(&r), y = between(&region, -35, 60) + 10 * dome(&r);
  draws arc = {adji_random(r.key, 1000 + number), 0};
  double t = uniform(&d), s = 1 - t;
  double fromx = 7 * dome(&arc), overx = 3 * dome(&arc), tox = 7 * dome(&arc);
  double fromy = 5 * dome(&arc), overy = 3 * dome(&arc), toy = 5 * dome(&arc);
  x += s * s * fromx + 2 * s * t * overx + t * t * tox;
  y += s * s * fromy + 2 * s * t * overy + t * t * toy;
  adji_put(g, row, 0, x);
  adji_put(g, row, 1, y);
  if (g->dim == 3) adji_put(g, row, 2, electrons(g, &d, x, y));
}

/* Whether the survey saw this place: stripes of 2.5 degrees of declination, adjacent and of different length in the
 * north, with gaps in the south. */
static bool in_survey(const adji_generator *g, double x, double y) {
  uint64_t stripe = (uint64_t)((y + 0.2) / 0.0436);
  draws s = draws_of(g, ADJI_FOR_REGIONS, stripe);
  if (x > 1.7 + between(&s, 0, 0.3) && x < 4.9 - between(&s, 0, 0.3)) return y > -0.1;
  return (x < 1.2 || x > 5.0) && y < 0.8 && stripe % 4 != 3;
}

/* Galaxies by right ascension and declination, in radians: the field, and 40,000 clusters. */
static void sdss_row(const adji_generator *g, uint64_t row) {
  draws d = draws_of(g, ADJI_FOR_ROWS, row);
  double x, y;
  do {
    if (uniform(&d) < 0.08) {
      double u = uniform(&d);
      draws c = draws_of(g, ADJI_FOR_CENTRES, (uint64_t)(40000 * u * u));
      double width = between(&c, 0.001, 0.005);
      x = between(&c, 0, 6.28) + width * normal(&d);
      y = between(&c, -0.2, 1.48) + width * normal(&d);
    } else {
      x = between(&d, 0, 6.28);
      y = between(&d, -0.2, 1.48);
    }
  } while (x < 0 || x > 6.28 || y < -0.2 || y > 1.48 || !in_survey(g, x, y) ||
           uniform(&d) > 0.7 + 0.3 * field(g, 0, 20 * x, 20 * y));
  adji_put(g, row, 0, x);
  adji_put(g, row, 1, y);
}

/* ---- Features ---------------------------------------------------------------------------------------------- */

/* x reflected at 0 and 1 into [0, 1]. */
static double fold(double x) {
  x = fabs(x);
  x -= 2 * floor(0.5 * x);
  return x > 1 ? 2 - x : x;
}

/* Correlated coordinates: FACTORS normal numbers of falling weight, which move all dimensions, and noise in each. All
 * of it is scaled by the row, so that most rows are near the middle and a few are far away. For each dimension, axes
 * has its weights of the factors, its middle and its noise. */
enum { FACTORS = 10, AXES = FACTORS + 2 };

static void put_factors(const adji_generator *g, uint64_t row, double scale, draws *d) {
  double z[FACTORS];
  for (int a = 0; a < FACTORS; a++)
    z[a] = scale * normal(d);
  for (uint32_t j = 0; j < g->dim; j++) {
    const double *axis = g->axes + (size_t)j * AXES;
    double x = axis[FACTORS] + scale * axis[FACTORS + 1] * normal(d);
    for (int a = 0; a < FACTORS; a++)
      x += axis[a] * z[a];
    adji_put(g, row, j, fold(x));
  }
}

static void texture_row(const adji_generator *g, uint64_t row) {
  draws d = draws_of(g, ADJI_FOR_ROWS, row);
  put_factors(g, row, 0.0075 + 0.0085 * exponential(&d), &d);
}

static void song_row(const adji_generator *g, uint64_t row) {
  draws d = draws_of(g, ADJI_FOR_ROWS, row);
  double e = exponential(&d);
  put_factors(g, row, 0.005 + 0.0025 * e * e, &d);
}

/* The dimensions of a texture have about equal widths. Songs have 12 means of low variance, 12 variances of high
 * variance, and covariances, most of which are small. */
static double width_of(const adji_generator *g, uint32_t j, draws *d) {
  double u = uniform(d);
  if (g->kind->row == texture_row) return 0.2 + 0.8 * u;
  return j < 12 ? 0.02 : j < 24 ? 0.2 + 0.8 * u : 0.05 + 0.25 * u * u * u;
}

static adj_status prepare_factors(adj_ctx *ctx, adji_generator *g) {
  g->axes = adji_alloc(&ctx->memory, adji_mul(g->dim, AXES), sizeof(double), "directions of the points");
  if (!g->axes) return ADJ_E_MEMORY;
  for (uint32_t j = 0; j < g->dim; j++) {
    draws d = draws_of(g, ADJI_FOR_AXES, j);
    double *axis = g->axes + (size_t)j * AXES, width = width_of(g, j, &d);
    for (int a = 0; a < FACTORS; a++)
      axis[a] = width * normal(&d) / (1 + 0.4 * a);
    axis[FACTORS] = between(&d, 0.2, 0.5);
    axis[FACTORS + 1] = 0.1 * width;
  }
  return ADJ_OK;
}

/* A histogram of the columns begin .. end - 1, which adds up to 1. Before normalisation the leading bin has the value 1
 * and the others 0; then each bin is filled with the given probability, by the square of a normal number times busy. */
typedef struct histogram {
  uint32_t begin, end;
  uint64_t leading;
  double filled, busy;
} histogram;

static void put_histogram(const adji_generator *g, uint64_t row, const histogram *h, draws *d) {
  double sum = 0;
  for (uint32_t j = h->begin; j < h->end; j++) {
    double x = j == h->leading ? 1 : 0, z = normal(d);
    if (uniform(d) < h->filled) x += h->busy * z * z;
    sum += x;
    adji_put(g, row, j, x);
  }
  for (uint32_t j = h->begin; j < h->end; j++)
    adji_put(g, row, j, adji_written(g, row, j) / sum);
}

/* Colours of an image. */
static void color_row(const adji_generator *g, uint64_t row) {
  draws d = draws_of(g, ADJI_FOR_ROWS, row);
  double u = uniform(&d);
  histogram h = {.end = g->dim, .busy = 0.001 + 0.9 * u * sqrt(u)};
  h.filled = between(&d, 0.25, 0.75);
  h.leading = ranked(uniform(&d), g->dim);
  put_histogram(g, row, &h, &d);
}

/* One histogram for each quarter of an image. Most quarters have the same leading colour. */
static void layout_row(const adji_generator *g, uint64_t row) {
  draws d = draws_of(g, ADJI_FOR_ROWS, row);
  histogram h = {.busy = between(&d, 0.001, 0.3)};
  h.filled = between(&d, 0.4, 1);
  double common = uniform(&d);
  for (uint64_t part = 1; part <= 4; part++) {
    h.begin = h.end;
    h.end = (uint32_t)(part * g->dim / 4);
    double own = uniform(&d);
    h.leading = h.begin + ranked(own < 0.2 ? 5 * own : common, h.end - h.begin);
    put_histogram(g, row, &h, &d);
  }
}

/* Supersymmetry, 18 columns: momentum, pseudorapidity and angle of two leptons, missing momentum and its angle; then
 * ten masses and ratios computed from these. Momenta have long tails, and angles are correlated. All columns share one
 * scale, in which the largest momenta are 1. */
static void susy_row(const adji_generator *g, uint64_t row) {
  draws d = draws_of(g, ADJI_FOR_ROWS, row);
  double momenta[3];
  for (int i = 0; i < 3; i++) {
    double tail = sqrt(1 - 0.9 * uniform(&d));
    momenta[i] = 0.3 + 0.5 * exponential(&d) / tail;
  }
  double v[8] = {[0] = momenta[0], [3] = momenta[1], [6] = momenta[2]};
  v[1] = 2.1 * dome(&d);
  v[2] = between(&d, -1.7, 1.7);
  v[4] = 0.7 * v[1] + 0.25 * normal(&d);
  v[5] = between(&d, -1.7, 1.7);
  v[7] = 0.5 * (v[2] + v[5]) + 0.25 * normal(&d);
  for (uint32_t j = 0; j < g->dim; j++) {
    uint32_t c = j % 18;
    double x = c < 8 ? v[c] : (momenta[c % 3] + momenta[c % 2]) * (0.5 + 0.05 * normal(&d));
    adji_put(g, row, j, fold((x + 4) / 40));
  }
}

/* ---- Names ------------------------------------------------------------------------------------------------- */

static const adji_generator_kind kinds[] = {
    {.name = "gaia", .row = gaia_row, .dims = {2, 2}},
    {.name = "osm", .row = osm_row, .dims = {2, 2}},
    {.name = "sw", .row = sw_row, .dims = {2, 3}},
    {.name = "sdss", .row = sdss_row, .dims = {2, 2}},
    {.name = "cooctexture", .row = texture_row, .prepare = prepare_factors},
    {.name = "colorhist", .row = color_row},
    {.name = "layouthist", .row = layout_row},
    {.name = "susy", .row = susy_row},
    {.name = "songs", .row = song_row, .prepare = prepare_factors},
};

const adji_generator_kind *adji_paper_kind(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcasecmp(name, kinds[i].name)) return &kinds[i];
  return NULL;
}

bool adji_paper_set(const char *name, adji_published_set *set) {
  static const struct {
    const char *name;
    adji_published_set set;
  } sets[] = {
      {"GAIA", {"gaia", 25000000, 2}},         {"OSM", {"osm", 25000000, 2}},
      {"SW2DA", {"sw", 1860000, 2}},           {"SW2DB", {"sw", 5160000, 2}},
      {"SW3DA", {"sw", 1860000, 3}},           {"SW3DB", {"sw", 5160000, 3}},
      {"SDSS", {"sdss", 15230000, 2}},         {"CoocTexture", {"cooctexture", 68040, 16}},
      {"ColorHist", {"colorhist", 68040, 32}}, {"LayoutHist", {"layouthist", 66616, 32}},
      {"SuSy", {"susy", 5000000, 18}},         {"Songs", {"songs", 515345, 90}},
  };
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    if (!strcasecmp(name, sets[i].name)) {
      *set = sets[i].set;
      return true;
    }
  return false;
}
