def test_two_clusters_are_up(source, target, topic_name):
    assert source.bootstrap != target.bootstrap
    print(topic_name)
