"""Bridges to well-known remotes, by the limits and the options that each documents: ``bascule init --for NAME``.

A preset is the bridge as the configuration has it, in which every limit names its source. Words in capitals stand for what only the
operator knows. Limits of rate are a tenth below those that are documented, since a burst after a pause comes on top of a rate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

_AWS_IOT = """\
bridges:
  # AWS IoT Core. Limits: https://docs.aws.amazon.com/general/latest/gr/iot-core.html#message-broker-limits
  # Ports and ALPN: https://docs.aws.amazon.com/iot/latest/developerguide/protocols.html
  - name: {bridge}
    remote:
      addresses: ["YOUR-ACCOUNT-ats.iot.YOUR-REGION.amazonaws.com:443"]  # aws iot describe-endpoint --endpoint-type iot:Data-ATS
      transport: tls
      protocol: mqtt5
      client_id: {client_id}  # at most 128 bytes; the policy of the certificate allows it
      keep_alive: 60s  # 30 s to 20 min; each PINGREQ is billed
      session_expiry: 1h  # the default; up to 7d where the account's limit was raised
      receive_maximum: 100  # unacknowledged PUBLISHes of a connection
      packet_max_bytes: 128KiB  # the largest message
      tls:
        cert_file: secrets/{bridge}.crt
        key_file: secrets/{bridge}.key
        alpn: [x-amzn-mqtt-ca]  # MQTT with a client certificate on port 443
    rate: {{messages_per_s: 90, bytes_per_s: 450KiB, burst: 100ms}}  # 100 PUBLISHes and 512 KB a second of a connection
    local_subscriptions:
      - filters: {filters}
        excludes: ["+/+/+/+/+/+/+/+/+/#"]  # a topic has at most 7 slashes, and 256 bytes
        max_qos: 1  # there is no QoS 2
        preserve_retain: false  # a retained message closes the connection where the policy has no iot:RetainPublish
"""

_AZURE_EVENT_GRID = """\
bridges:
  # Azure Event Grid namespace. Features: https://learn.microsoft.com/azure/event-grid/mqtt-support
  # Limits: https://learn.microsoft.com/azure/event-grid/quotas-limits
  - name: {bridge}
    remote:
      addresses: ["YOUR-NAMESPACE.YOUR-REGION-1.ts.eventgrid.azure.net:8883"]
      transport: tls
      protocol: mqtt5
      client_id: {client_id}  # the session's name
      username: YOUR-CLIENT  # the client's authentication name
      keep_alive: 60s  # at most 1160 s
      session_expiry: 1h  # at most 8 h, as the namespace is configured
      receive_maximum: 100  # 1000 PUBLISHes or 64 KB in flight: less where messages have more than 640 bytes
      packet_max_bytes: 512KiB  # the largest message
      tls: {{cert_file: secrets/{bridge}.crt, key_file: secrets/{bridge}.key}}
      # By a token instead of a certificate, which is renewed by AUTH; data_command makes one where it runs out:
      #authentication: {{method: OAUTH2-JWT, data_file: secrets/{bridge}.token}}
    rate: {{messages_per_s: 900, bytes_per_s: 900kB, burst: 100ms}}  # 1000 PUBLISHes and 1 MB a second of a session
    local_subscriptions:
      - filters: {filters}
        excludes: ["+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/#"]  # a topic has at most 15 levels, and 256 bytes
        max_qos: 1  # there is no QoS 2: it closes the connection
        preserve_retain: false  # true where the namespace retains; then at most 64 KB each
"""

_AZURE_IOT_HUB = """\
bridges:
  # Azure IoT Hub, as one device. https://learn.microsoft.com/azure/iot/iot-mqtt-connect-to-iot-hub
  # Limits: https://learn.microsoft.com/azure/iot-hub/iot-hub-devguide-quotas-throttling
  - name: {bridge}
    remote:
      addresses: ["YOUR-HUB.azure-devices.net:8883"]
      transport: tls
      protocol: mqtt311
      client_id: YOUR-DEVICE  # the device's identifier, and no other
      username: YOUR-HUB.azure-devices.net/YOUR-DEVICE/?api-version=2021-04-12
      # A SAS token, such as az iot hub generate-sas-token makes; password_command makes one where it runs out. It is renewed
      # before it ends.
      password_file: secrets/{bridge}.sas
      keep_alive: 60s  # at most 1177 s
      packet_max_bytes: 256KiB  # the largest message
    rate: {{messages_per_s: 90, burst: 100ms}}  # 100 sendings a second of a hub with one unit (S1), of all its devices
    local_subscriptions:
      - filters: {filters}
        destination: devices/YOUR-DEVICE/messages/events/  # the only topic that a device publishes to
        provenance: envelope  # so the message itself tells its topic
        max_qos: 1  # QoS 2 closes the connection
        preserve_retain: false  # nothing is retained
"""

_HIVEMQ_CLOUD = """\
bridges:
  # HiveMQ Cloud. https://docs.hivemq.com/hivemq-cloud/cloud-console.html
  # It documents no limits: by MQTT 5 it says them when it is connected to, and the bridge keeps to those.
  - name: {bridge}
    remote:
      addresses: ["YOUR-CLUSTER.s1.eu.hivemq.cloud:8883"]
      transport: tls  # nothing else is taken
      protocol: mqtt5
      client_id: {client_id}
      username: YOUR-USER  # made on the cluster's page
      password_file: secrets/{bridge}.password
      session_expiry: 1h  # longer ones are cut to what the plan allows
    local_subscriptions:
      - filters: {filters}
"""

_EMQX = """\
bridges:
  # EMQX Serverless. Limits: https://docs.emqx.com/en/cloud/latest/create/restriction.html
  # One of your own has others: no rate, and 1 MB as mqtt.max_packet_size says.
  - name: {bridge}
    remote:
      addresses: ["YOUR-DEPLOYMENT.ala.eu-central-1.emqxsl.com:8883"]
      transport: tls
      protocol: mqtt5
      client_id: {client_id}  # at most 1024 bytes
      username: YOUR-USER
      password_file: secrets/{bridge}.password
      session_expiry: 2h
      packet_max_bytes: 1MB  # the largest message
    rate: {{messages_per_s: 9, burst: 100ms}}  # 10 PUBLISHes a second of a client
    local_subscriptions:
      - filters: {filters}
"""

_RABBITMQ = """\
bridges:
  # RabbitMQ with rabbitmq_mqtt. https://www.rabbitmq.com/docs/mqtt
  - name: {bridge}
    remote:
      addresses: ["YOUR-HOST:1883"]  # with TLS: 8883, and transport: tls
      protocol: mqtt311  # from 3.13 on mqtt5 is taken, too
      client_id: {client_id}
      username: YOUR-USER  # of another virtual host: VHOST:USER
      password_file: secrets/{bridge}.password
    local_subscriptions:
      - filters: {filters}
        max_qos: 1  # QoS 2 is lowered to 1 there
"""

_NATS = """\
bridges:
  # NATS with mqtt: and JetStream. https://docs.nats.io/nats-server/configuration/mqtt
  - name: {bridge}
    remote:
      addresses: ["YOUR-HOST:1883"]
      protocol: mqtt311  # MQTT 5 is not spoken
      client_id: {client_id}
      username: YOUR-USER
      password_file: secrets/{bridge}.password
    local_subscriptions:
      - filters: {filters}
"""

_MOSQUITTO = """\
bridges:
  # Mosquitto 2. https://mosquitto.org/man/mosquitto-conf-5.html
  - name: {bridge}
    remote:
      addresses: ["YOUR-HOST:1883"]  # with TLS: 8883, and transport: tls
      protocol: mqtt5  # so it says how many messages may be in flight: max_inflight_messages, 20
      client_id: {client_id}
      username: YOUR-USER
      password_file: secrets/{bridge}.password
      session_expiry: 7d  # no longer than its persistent_client_expiration
    local_subscriptions:
      - filters: {filters}
"""

PRESETS: Mapping[str, str] = {
    "aws-iot": _AWS_IOT,
    "azure-event-grid": _AZURE_EVENT_GRID,
    "azure-iot-hub": _AZURE_IOT_HUB,
    "hivemq-cloud": _HIVEMQ_CLOUD,
    "emqx": _EMQX,
    "rabbitmq": _RABBITMQ,
    "nats": _NATS,
    "mosquitto": _MOSQUITTO,
}
_NAMED = re.compile(r"secrets/[^\s,}\"]+")


def preset(name: str, *, bridge: str, client_id: str, filters: Iterable[str]) -> str:
    """The bridge as the file has it; KeyError for a remote that has no preset."""
    return PRESETS[name].format(bridge=bridge, client_id=json.dumps(client_id), filters=json.dumps(list(filters)))


def to_fill_in(text: str) -> list[str]:
    """What the operator has to write or to put there before it holds: words in capitals, and files."""
    values = "\n".join(line.partition("  #")[0] for line in text.splitlines() if not line.strip().startswith("#"))
    return list(dict.fromkeys([*re.findall(r"YOUR-[A-Z]+", values), *_NAMED.findall(values)]))
