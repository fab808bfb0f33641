/* SPDX-License-Identifier: MIT
 *
 * The peer nanoflann, used as well as we know how. Points are put into Morton order first, so that neighbouring queries
 * walk the same nodes. The dimension is a template argument. All queries run in an OpenMP loop. Result sets keep only
 * ids, or only counts, or the k nearest without the point itself. The timed part has the sort, the tree and the rows by
 * original id. The variant is the leaf size.
 */
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nanoflann.hpp>
#include <string>
#include <vector>

#include "driver.h"

namespace {

/* Memory that is not zeroed. A std::vector would write every page once more than needed. */
template <class T>
std::unique_ptr<T[]> uninitialised(size_t count) {
  return std::unique_ptr<T[]>(new T[count]);
}

struct Cloud {
  const float *data;
  size_t count, dim;
  size_t kdtree_get_point_count() const {
    return count;
  }
  float kdtree_get_pt(size_t row, size_t j) const {
    return data[row * dim + j];
  }
  template <class Box>
  bool kdtree_get_bbox(Box &) const {
    return false;
  }
};

/* nanoflann keeps a point when its squared distance is < worstDist; the join wants <=. */
struct Counter {
  float worst;
  uint32_t found = 0;
  using DistanceType = float;
  float worstDist() const {
    return worst;
  }
  bool full() const {
    return true;
  }
  bool addPoint(float, uint32_t) {
    found++;
    return true;
  }
};

struct Collector {
  float worst;
  std::vector<uint32_t> *ids;
  using DistanceType = float;
  float worstDist() const {
    return worst;
  }
  bool full() const {
    return true;
  }
  bool addPoint(float, uint32_t id) {
    ids->push_back(id);
    return true;
  }
};

/* nanoflann's own set of the k nearest, without the point itself. Asking for one neighbour more would be slower. */
struct Others : nanoflann::KNNResultSet<float, uint32_t> {
  using Base = nanoflann::KNNResultSet<float, uint32_t>;
  const uint32_t self;
  Others(size_t k, uint32_t own) : Base(k), self(own) {
  }
  bool addPoint(float distance, uint32_t id) {
    return id == self || Base::addPoint(distance, id);
  }
};

/* Keys of 30 to 32 bits, taken in turn from the first dimensions (at most eight), each scaled to its range. */
void morton_keys(const bench_points &points, std::vector<uint32_t> &keys) {
  const float *data = static_cast<const float *>(points.data);
  const unsigned dim = points.dim, used = std::min(dim, 8u), bits = std::min(32u / used, 16u);
  std::vector<float> low(used, INFINITY), high(used, -INFINITY);
  for (uint64_t i = 0; i < points.count; i++) {
    for (unsigned j = 0; j < used; j++) {
      low[j] = std::min(low[j], data[i * dim + j]);
      high[j] = std::max(high[j], data[i * dim + j]);
    }
  }
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < static_cast<int64_t>(points.count); i++) {
    uint32_t cell[8], key = 0;
    for (unsigned j = 0; j < used; j++) {
      double span = static_cast<double>(high[j]) - low[j], top = (1u << bits) - 1;
      cell[j] = span > 0 ? static_cast<uint32_t>((data[i * dim + j] - low[j]) / span * top) : 0;
    }
    for (unsigned bit = bits; bit-- > 0;) {
      for (unsigned j = 0; j < used; j++)
        key = key << 1 | (cell[j] >> bit & 1);
    }
    keys[i] = key;
  }
}

/* The rows in ascending order of key: a radix sort in three passes of 11 bits. */
std::vector<uint32_t> sorted_rows(std::vector<uint32_t> &keys) {
  const size_t count = keys.size();
  std::vector<uint32_t> rows(count), other_rows(count), other_keys(count);
  for (size_t i = 0; i < count; i++)
    rows[i] = static_cast<uint32_t>(i);
  for (unsigned shift = 0; shift < 32; shift += 11) {
    std::vector<size_t> starts(2049, 0);
    for (uint32_t key : keys)
      starts[(key >> shift & 2047) + 1]++;
    for (size_t b = 0; b < 2048; b++)
      starts[b + 1] += starts[b];
    for (size_t i = 0; i < count; i++) {
      size_t to = starts[keys[i] >> shift & 2047]++;
      other_keys[to] = keys[i];
      other_rows[to] = rows[i];
    }
    keys.swap(other_keys);
    rows.swap(other_rows);
  }
  return rows;
}

/* Points in Morton order. */
struct Ordered {
  std::vector<uint32_t> rows; /* original row of each */
  std::vector<float> data;
  explicit Ordered(const bench_points &points) {
    std::vector<uint32_t> keys(points.count);
    morton_keys(points, keys);
    rows = sorted_rows(keys);
    data.resize(points.count * points.dim);
    const float *from = static_cast<const float *>(points.data);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < static_cast<int64_t>(points.count); i++) {
      std::copy_n(from + static_cast<size_t>(rows[i]) * points.dim, points.dim, data.data() + i * points.dim);
    }
  }
};

struct Result {
  std::unique_ptr<uint64_t[]> offsets;
  std::unique_ptr<uint32_t[]> ids, counts;
  std::unique_ptr<float[]> distances;
};

template <int DIM>
class Join {
  using Tree = nanoflann::KDTreeSingleIndexAdaptor<nanoflann::L2_Simple_Adaptor<float, Cloud, float, uint32_t>, Cloud,
                                                   DIM, uint32_t>;
  static constexpr int64_t chunk = 1024;

  const bench_points &points;
  const float worst;
  const Ordered ordered;
  const std::vector<uint32_t> &rows;
  const std::vector<float> &data;
  Cloud cloud{};
  std::unique_ptr<Tree> tree;

 public:
  Join(const bench_points &all, double radius, size_t leaf)
      : points(all), worst(closed(radius)), ordered(all), rows(ordered.rows), data(ordered.data) {
    cloud = Cloud{data.data(), points.count, points.dim};
    tree = std::make_unique<Tree>(static_cast<int>(points.dim), cloud, nanoflann::KDTreeSingleIndexAdaptorParams(leaf));
  }

  void count(Result &result) const {
    result.counts = uninitialised<uint32_t>(points.count);
#pragma omp parallel for schedule(dynamic, chunk)
    for (int64_t i = 0; i < size(); i++) {
      Counter counter{worst};
      tree->findNeighbors(counter, query(i), nanoflann::SearchParams());
      result.counts[rows[i]] = counter.found - 1; /* without the point itself */
    }
  }

  /* Finds the k nearest of each query, or of each of the tree's own points if queries is NULL. */
  void nearest(const bench_points *queries, uint32_t k, Result &result) const {
    std::unique_ptr<Ordered> apart;
    if (queries) apart = std::make_unique<Ordered>(*queries);
    const Ordered &from = apart ? *apart : ordered;
    const int64_t count = static_cast<int64_t>(from.rows.size());
    result.ids = uninitialised<uint32_t>(static_cast<size_t>(count) * k);
    result.distances = uninitialised<float>(static_cast<size_t>(count) * k);
#pragma omp parallel for schedule(dynamic, chunk)
    for (int64_t i = 0; i < count; i++) {
      uint32_t *ids = result.ids.get() + static_cast<size_t>(from.rows[i]) * k;
      float *distances = result.distances.get() + static_cast<size_t>(from.rows[i]) * k;
      Others others(k, queries ? UINT32_MAX : static_cast<uint32_t>(i));
      others.init(ids, distances);
      tree->findNeighbors(others, from.data.data() + i * points.dim, nanoflann::SearchParams());
      for (uint32_t at = 0; at < k; at++) {
        const bool found = at < others.size();
        ids[at] = found ? rows[ids[at]] : UINT32_MAX;
        distances[at] = found ? std::sqrt(distances[at]) : INFINITY;
      }
    }
  }

  /* The first pass answers the queries, with a buffer for each chunk. After a prefix sum, the second pass puts the rows
   * into place and turns ids in Morton order into original ids. */
  void collect(Result &result) const {
    const int64_t chunks = (size() + chunk - 1) / chunk;
    std::vector<std::vector<uint32_t>> found(chunks);
    auto degrees = uninitialised<uint32_t>(points.count); /* in Morton order */
    result.offsets = uninitialised<uint64_t>(points.count + 1);
#pragma omp parallel
    {
      std::vector<uint32_t> ids; /* grows once per thread, not once per chunk */
#pragma omp for schedule(dynamic)
      for (int64_t c = 0; c < chunks; c++) {
        ids.clear();
        for (int64_t i = c * chunk; i < std::min(size(), (c + 1) * chunk); i++) {
          const size_t before = ids.size();
          Collector collector{worst, &ids};
          tree->findNeighbors(collector, query(i), nanoflann::SearchParams());
          degrees[i] = static_cast<uint32_t>(ids.size() - before - 1);
          result.offsets[rows[i] + 1] = degrees[i];
        }
        found[c] = ids;
      }
    }
    result.offsets[0] = 0;
    for (uint64_t i = 0; i < points.count; i++)
      result.offsets[i + 1] += result.offsets[i];
    result.ids = uninitialised<uint32_t>(result.offsets[points.count]);
#pragma omp parallel for schedule(dynamic)
    for (int64_t c = 0; c < chunks; c++) {
      const uint32_t *from = found[c].data();
      for (int64_t i = c * chunk; i < std::min(size(), (c + 1) * chunk); i++) {
        uint32_t *to = result.ids.get() + result.offsets[rows[i]];
        for (const uint32_t *end = from + degrees[i] + 1; from < end; from++) {
          if (*from != static_cast<uint32_t>(i)) *to++ = rows[*from];
        }
      }
    }
  }

 private:
  static float closed(double radius) {
    const float r = static_cast<float>(radius);
    return std::nextafter(r * r, INFINITY);
  }
  int64_t size() const {
    return static_cast<int64_t>(points.count);
  }
  const float *query(int64_t i) const {
    return data.data() + i * points.dim;
  }
};

/* The sets of a join. The tree is built over right, which is the same as left in a self-join. */
struct Sets {
  bench_points left, right;
  const bench_points &searched() const {
    return right.data ? right : left;
  }
};

bool judge(const bench_args &args, const Sets &sets, const Result &result, bench_digest *digest) {
  if (args.k) {
    const bench_table table{sets.left.count, args.k, result.ids.get(), result.distances.get()};
    bench_digest_table(&table, digest);
    return !args.answer || bench_answer(args.answer, &table, digest);
  }
  if (result.counts) {
    bench_digest_counts(result.counts.get(), sets.left.count, digest);
  } else {
    bench_digest_rows(result.offsets.get(), result.ids.get(), sets.left.count, digest);
  }
  return true;
}

template <int DIM>
bool repeat(const bench_args &args, const Sets &sets, size_t leaf) {
  for (unsigned repeat = 0; repeat < args.repeats; repeat++) {
    bench_timing timing{};
    Result result;
    bench_usage_begin(&timing);
    const double begin = bench_now();
    Join<DIM> join(sets.searched(), args.radius, leaf);
    timing.index_s = bench_now() - begin;
    if (args.k) {
      join.nearest(sets.right.data ? &sets.left : nullptr, args.k, result);
    } else if (std::strcmp(args.mode, "count") == 0) {
      join.count(result);
    } else {
      join.collect(result);
    }
    timing.seconds = bench_now() - begin;
    bench_usage_end(&timing);
    auto digest = std::make_unique<bench_digest>();
    if (!judge(args, sets, result, digest.get())) return false;
    bench_report("nanoflann", &args, &timing, digest.get(), nullptr);
  }
  return true;
}

bool repeat_for_dim(const bench_args &args, const Sets &sets, size_t leaf) {
  switch (sets.left.dim) {
    case 2:
      return repeat<2>(args, sets, leaf);
    case 3:
      return repeat<3>(args, sets, leaf);
    case 6:
      return repeat<6>(args, sets, leaf);
    case 16:
      return repeat<16>(args, sets, leaf);
    case 32:
      return repeat<32>(args, sets, leaf);
    default:
      return repeat<-1>(args, sets, leaf);
  }
}

}  // namespace

int main(int argc, char **argv) {
  bench_args args;
  Sets sets;
  if (!bench_parse(argc, argv, &args)) return 2;
  const bool known =
      args.k ? std::strcmp(args.mode, "knn") == 0
             : !args.right_path && (std::strcmp(args.mode, "csr") == 0 || std::strcmp(args.mode, "count") == 0);
  if (!known) {
    std::fprintf(stderr, "nanoflann: no mode '%s'\n", args.mode);
    return 2;
  }
  const size_t leaf = *args.variant ? std::strtoul(args.variant, nullptr, 10) : 16;
  if (leaf < 1) {
    std::fprintf(stderr, "nanoflann: the variant is a leaf size >= 1, not '%s'\n", args.variant);
    return 2;
  }
  if (!bench_load_both(&args, &sets.left, &sets.right)) return 1;
  const bench_points &searched = sets.searched();
  if (sets.left.value_bytes != 4 || searched.value_bytes != 4 || searched.dim != sets.left.dim || !searched.count) {
    std::fprintf(stderr, "nanoflann: %s: this driver takes f32, one dimension and at least one point\n", args.path);
    return 1;
  }
  omp_set_num_threads(static_cast<int>(args.threads));
  const bool good = repeat_for_dim(args, sets, leaf);
  std::free(sets.left.data);
  std::free(sets.right.data);
  return good ? 0 : 1;
}
