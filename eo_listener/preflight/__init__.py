"""Is all there that commits need? Facts in, findings out; pure but for the check at start.

`facts` are gathered elsewhere: of Kafka by `eo_listener.kafka.cluster_describer`, of this machine
by `eo_listener.spark.session.local_facts`.
"""
