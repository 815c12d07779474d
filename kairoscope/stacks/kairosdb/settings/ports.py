"""TCP ports of KairosDB and of its store."""

NATIVE_TRANSPORT_PORT = 9042
STORAGE_PORT = 7000
HTTP_PORT = 8080
JMX_PORT = 7199
# Of the agent that gives some of Cassandra's JMX by HTTP.
JOLOKIA_PORT = 8778
TELNET_PORT = 4242
# Metrics of a storage node, whatever its engine.
PROMETHEUS_PORT = 9180
# ScyllaDB's: between nodes by TLS, CQL by which a client picks the shard, REST API.
STORAGE_TLS_PORT = 7001
SHARD_AWARE_PORT = 19042
API_PORT = 10000
