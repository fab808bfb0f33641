# SPDX-License-Identifier: MIT
"""The metrics against SciPy's and NumPy's, up to rounding: what they mean, not their last bits."""
import unittest

from program import ProgramTest, main

try:
    import numpy
    import scipy.spatial
except ImportError:
    numpy = None


def great_circle(a, b):
    """Radians between rows of longitude and latitude in degrees."""
    a, b = numpy.radians(a)[:, None, :], numpy.radians(b)[None, :, :]
    across = numpy.sin((a[..., 1] - b[..., 1]) / 2)**2
    along = numpy.cos(a[..., 1]) * numpy.cos(b[..., 1]) * numpy.sin((a[..., 0] - b[..., 0]) / 2)**2
    return 2 * numpy.arcsin(numpy.minimum(1, numpy.sqrt(across + along)))


@unittest.skipIf(numpy is None, "needs NumPy and SciPy")
class Agreement(ProgramTest):

    def setUp(self):
        super().setUp()
        self.random = numpy.random.default_rng(7)

    def check(self, points, distances, radius, *arguments, inside=None):
        """The pairs within radius, their distances, and nothing else; no pair is at the very edge."""
        numpy.save("points.npy", points)
        self.adjoin("range", "-r", radius, "points.npy", "-o", "pairs.npz", "--distance", *arguments)
        inside = distances <= radius if inside is None else inside
        numpy.fill_diagonal(inside, False)
        archive = numpy.load("pairs.npz", allow_pickle=True)
        found = scipy.sparse.csr_matrix((archive["data"], archive["indices"], archive["indptr"]), shape=distances.shape)
        rows = numpy.repeat(numpy.arange(len(points)), numpy.diff(archive["indptr"]))
        self.assertEqual(len(rows), inside.sum())
        self.assertTrue(inside[rows, found.indices].all())
        numpy.testing.assert_allclose(archive["data"], distances[rows, found.indices], rtol=1e-7, atol=1e-9)

    def test_minkowski(self):
        points = self.random.random((400, 4))
        for p in (1, 1.5, 2, 3, 7.25, 40):
            distances = scipy.spatial.distance.cdist(points, points, "minkowski", p=p)
            self.check(points, distances, 0.25, "--metric", "lp", "--p", p)

    def test_cosine(self):
        points = self.random.standard_normal((400, 8)) * 10**self.random.uniform(-3, 3, (400, 1))
        distances = scipy.spatial.distance.cdist(points, points, "cosine")
        self.check(points, distances, 0.4, "--metric", "cosine")

    def test_inner_product(self):
        points = self.random.standard_normal((300, 6))
        products = points @ points.T
        self.check(points, products, -1.5, "--metric", "dot", inside=products >= -1.5)

    def test_great_circle(self):
        points = numpy.column_stack((self.random.uniform(-180, 180, 500), self.random.uniform(-90, 90, 500)))
        angles = great_circle(points, points)
        self.check(points, angles * 6371008.8, 900e3, "--metric", "haversine")
        self.check(points, numpy.degrees(angles), 9.5, "--metric", "haversine", "--unit", "degrees")
        self.check(numpy.radians(points), angles, 0.2, "--metric", "haversine", "--unit", "radians", "--angle", "radians")
        self.check(points, angles * 3389500, 500e3, "--metric", "haversine", "--sphere", 3389500)

    def test_box(self):
        points = self.random.random((600, 3)) * [1, 2, 5]
        for metric, p in (("l2", 2), ("l1", 1), ("linf", numpy.inf)):
            tree = scipy.spatial.cKDTree(points, boxsize=[1, 2, 0])
            distances = tree.sparse_distance_matrix(tree, 0.4, p=p).toarray()
            inside = distances > 0
            self.check(points, distances, 0.4, "--metric", metric, "--box", "1,2,0", inside=inside)

    def test_nearest_in_a_box(self):
        points = self.random.random((500, 2))
        numpy.save("points.npy", points)
        self.adjoin("knn", "-k", 5, "points.npy", "-o", "near.npz", "--box", 1)
        distances, ids = scipy.spatial.cKDTree(points, boxsize=1).query(points, 6)
        archive = numpy.load("near.npz")
        numpy.testing.assert_array_equal(archive["indices"], ids[:, 1:])
        numpy.testing.assert_allclose(archive["distances"], distances[:, 1:], rtol=1e-12)


main()
