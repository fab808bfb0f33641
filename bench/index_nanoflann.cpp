/* SPDX-License-Identifier: MIT
 *
 * nanoflann as a kept index. The tree is built once, over points in Morton order. A call answers any number of queries
 * in an OpenMP loop, into arrays of the caller. See index.h.
 */
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <nanoflann.hpp>
#include <numeric>
#include <vector>

#include "index.h"

namespace {

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

struct Collector {
  float worst;
  std::vector<uint32_t> *ids;
  std::vector<float> *squares;
  using DistanceType = float;
  float worstDist() const {
    return worst;
  }
  bool full() const {
    return true;
  }
  bool addPoint(float square, uint32_t id) {
    ids->push_back(id);
    squares->push_back(square);
    return true;
  }
};

/* Rows in Morton order of their first dimensions, at most eight. */
std::vector<uint32_t> morton_order(const float *data, size_t count, unsigned dim) {
  const unsigned used = std::min(dim, 8u), bits = std::min(32u / used, 16u);
  std::vector<float> low(used, INFINITY), high(used, -INFINITY);
  for (size_t i = 0; i < count; i++)
    for (unsigned j = 0; j < used; j++) {
      low[j] = std::min(low[j], data[i * dim + j]);
      high[j] = std::max(high[j], data[i * dim + j]);
    }
  std::vector<uint64_t> keys(count);
  for (size_t i = 0; i < count; i++) {
    uint32_t cell[8];
    uint64_t key = 0;
    for (unsigned j = 0; j < used; j++) {
      const float span = high[j] - low[j];
      cell[j] = span > 0 ? static_cast<uint32_t>((data[i * dim + j] - low[j]) / span * ((1u << bits) - 1)) : 0;
    }
    for (unsigned bit = bits; bit-- > 0;)
      for (unsigned j = 0; j < used; j++)
        key = key << 1 | (cell[j] >> bit & 1);
    keys[i] = key << 32 | i;
  }
  std::sort(keys.begin(), keys.end());
  std::vector<uint32_t> rows(count);
  for (size_t i = 0; i < count; i++)
    rows[i] = static_cast<uint32_t>(keys[i]);
  return rows;
}

void make_room(peer_answer *answer, size_t room) {
  if (room <= answer->room) return;
  answer->ids = static_cast<uint32_t *>(std::realloc(answer->ids, room * sizeof(uint32_t)));
  answer->distances = static_cast<float *>(std::realloc(answer->distances, room * sizeof(float)));
  answer->room = room;
}

}  // namespace

struct peer_index {
  virtual ~peer_index() = default;
  virtual void nearest(const float *queries, size_t count, unsigned k, bool ordered, peer_answer *answer) const = 0;
  virtual void within(const float *queries, size_t count, double radius, bool ordered, peer_answer *answer) const = 0;
};

namespace {

template <int DIM>
struct Index final : peer_index {
  using Tree = nanoflann::KDTreeSingleIndexAdaptor<nanoflann::L2_Simple_Adaptor<float, Cloud, float, uint32_t>, Cloud,
                                                   DIM, uint32_t>;
  std::vector<uint32_t> rows;
  std::vector<float> data;
  Cloud cloud;
  std::unique_ptr<Tree> tree;

  Index(const float *points, size_t count, size_t leaf) : rows(morton_order(points, count, DIM)), data(count * DIM) {
    for (size_t i = 0; i < count; i++)
      std::copy_n(points + static_cast<size_t>(rows[i]) * DIM, DIM, data.data() + i * DIM);
    cloud = Cloud{data.data(), count, DIM};
    tree = std::make_unique<Tree>(DIM, cloud, nanoflann::KDTreeSingleIndexAdaptorParams(leaf));
  }

  void nearest_one(const float *query, unsigned k, uint32_t *ids, float *distances) const {
    nanoflann::KNNResultSet<float, uint32_t> best(k);
    best.init(ids, distances);
    tree->findNeighbors(best, query, nanoflann::SearchParams());
    for (size_t at = 0; at < best.size(); at++) {
      ids[at] = rows[ids[at]];
      distances[at] = std::sqrt(distances[at]);
    }
  }

  void nearest(const float *queries, size_t count, unsigned k, bool ordered, peer_answer *answer) const override {
    make_room(answer, count * k);
    if (count == 1) return nearest_one(queries, k, answer->ids, answer->distances);
    std::vector<uint32_t> order;
    if (ordered) order = morton_order(queries, count, DIM);
#pragma omp parallel for schedule(dynamic, 64)
    for (int64_t n = 0; n < static_cast<int64_t>(count); n++) {
      const size_t i = ordered ? order[n] : n;
      nearest_one(queries + i * DIM, k, answer->ids + i * k, answer->distances + i * k);
    }
  }

  struct Found {
    std::vector<uint32_t> ids;
    std::vector<float> squares;
  };

  void within_one(const float *query, float worst, Found *found) const {
    Collector collector{worst, &found->ids, &found->squares};
    tree->findNeighbors(collector, query, nanoflann::SearchParams());
  }

  void put(const Found &found, size_t from, size_t end, uint32_t *ids, float *distances) const {
    for (size_t at = from; at < end; at++) {
      *ids++ = rows[found.ids[at]];
      *distances++ = std::sqrt(found.squares[at]);
    }
  }

  void within(const float *queries, size_t count, double radius, bool ordered, peer_answer *answer) const override {
    const float r = static_cast<float>(radius), worst = std::nextafter(r * r, INFINITY);
    if (count == 1) {
      static thread_local Found found;
      found.ids.clear();
      found.squares.clear();
      within_one(queries, worst, &found);
      make_room(answer, found.ids.size());
      answer->offsets[0] = 0;
      answer->offsets[1] = found.ids.size();
      return put(found, 0, found.ids.size(), answer->ids, answer->distances);
    }
    std::vector<uint32_t> order;
    if (ordered) order = morton_order(queries, count, DIM);
    const size_t chunk = 64, chunks = (count + chunk - 1) / chunk;
    std::vector<Found> found(chunks);
    std::vector<uint32_t> lengths(count);
#pragma omp parallel for schedule(dynamic)
    for (int64_t c = 0; c < static_cast<int64_t>(chunks); c++) {
      for (size_t n = c * chunk; n < std::min(count, (c + 1) * chunk); n++) {
        const size_t i = ordered ? order[n] : n, before = found[c].ids.size();
        within_one(queries + i * DIM, worst, &found[c]);
        lengths[i] = static_cast<uint32_t>(found[c].ids.size() - before);
      }
    }
    answer->offsets[0] = 0;
    std::partial_sum(lengths.begin(), lengths.end(), answer->offsets + 1,
                     [](uint64_t a, uint64_t b) -> uint64_t { return a + b; });
    make_room(answer, answer->offsets[count]);
#pragma omp parallel for schedule(dynamic)
    for (int64_t c = 0; c < static_cast<int64_t>(chunks); c++) {
      size_t from = 0;
      for (size_t n = c * chunk; n < std::min(count, (c + 1) * chunk); n++) {
        const size_t i = ordered ? order[n] : n;
        put(found[c], from, from + lengths[i], answer->ids + answer->offsets[i],
            answer->distances + answer->offsets[i]);
        from += lengths[i];
      }
    }
  }
};

}  // namespace

peer_index *peer_create(const float *points, size_t count, unsigned dim, size_t leaf) {
  if (dim == 2) return new Index<2>(points, count, leaf);
  if (dim == 3) return new Index<3>(points, count, leaf);
  if (dim == 6) return new Index<6>(points, count, leaf);
  if (dim == 16) return new Index<16>(points, count, leaf);
  return nullptr;
}

void peer_destroy(peer_index *index) {
  delete index;
}

void peer_nearest(const peer_index *index, const float *queries, size_t count, unsigned k, int ordered,
                  peer_answer *answer) {
  index->nearest(queries, count, k, ordered != 0, answer);
}

void peer_within(const peer_index *index, const float *queries, size_t count, double radius, int ordered,
                 peer_answer *answer) {
  index->within(queries, count, radius, ordered != 0, answer);
}
