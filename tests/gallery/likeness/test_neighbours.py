import torch
from torch.nn.functional import normalize

from andornot.gallery.likeness.neighbours import expand, neighbours_in


def test_a_query_becomes_the_mean_of_itself_and_its_neighbours_by_similarity():
    query, near, far = torch.tensor([1.0, 0.0]), torch.tensor([0.6, 0.8]), torch.tensor([0.0, 1.0])
    found = expand(query[None], torch.stack([near, far])[None], torch.tensor([[0.6, 0.0]]))[0]
    torch.testing.assert_close(found, normalize(query + 0.6 * near, dim=0))


def test_pictures_that_point_away_say_nothing():
    query = torch.tensor([[1.0, 0.0]])
    assert torch.equal(expand(query, torch.tensor([[[-1.0, 0.0]]]), torch.tensor([[-1.0]])), query)


def test_without_neighbours_a_query_stays_itself():
    query = torch.tensor([[0.6, 0.8]])
    torch.testing.assert_close(expand(query, torch.empty(1, 0, 2), torch.empty(1, 0)), query)


def test_a_small_gallery_has_few_neighbours():
    assert [neighbours_in(count) for count in (0, 1, 49, 50, 1000, 5_000_000)] == [0, 0, 0, 1, 20, 20]
