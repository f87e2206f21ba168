"""Is all there that commits need? Facts in, findings out; pure but for the check at start.

`facts` are gathered elsewhere: of Kafka by `eo_listener.kafka.inspector`, of this machine by
`eo_listener.session.surroundings`.
"""
