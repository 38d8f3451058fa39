"""The normative statements that no test here shows, each with its reason."""

from __future__ import annotations

from tests.conformance.statements import V5, V311

CLIENT = "a duty of the Client; the tests are the Client"
NEVER_LESS = "binds a Server that lacks something (QoS, retained messages), or Clients of one; neither lacks anything"
NO_AUTH = "binds a Server that offers enhanced authentication; it is refused here (MQTT-4.12.0-1)"
TRANSIENT = "a transient error inside the Server cannot be brought about from outside; tests/faults does it to the store"
BRIDGE = "the client side of a bridge; tests/bridge and tests/simulation look at it"

LEFT_OUT: dict[int, dict[str, str]] = {
    V311: {
        **dict.fromkeys(("MQTT-2.3.1-2", "MQTT-2.3.1-3", "MQTT-3.1.2-23", "MQTT-4.5.0-2", "MQTT-7.1.2-1"), CLIENT),
        **dict.fromkeys((f"MQTT-4.6.0-{number}" for number in range(1, 5)), CLIENT),
        "MQTT-3.1.3-9": "neither broker rejects a Client Identifier for anything but being empty (MQTT-3.1.3-8)",
        "MQTT-4.8.0-2": TRANSIENT,
        "MQTT-7.0.0-1": BRIDGE,
    },
    V5: {
        **dict.fromkeys(
            (
                "MQTT-3.1.2-20",
                "MQTT-3.1.2-21",
                "MQTT-3.1.2-30",
                "MQTT-3.2.2-4",
                "MQTT-3.2.2-5",
                "MQTT-3.2.2-18",
                "MQTT-3.2.2-21",
                "MQTT-3.3.4-8",
                "MQTT-3.3.2-10",
                "MQTT-4.5.0-2",
                "MQTT-4.12.0-3",
                *(f"MQTT-4.6.0-{number}" for number in range(1, 5)),
            ),
            CLIENT,
        ),
        **dict.fromkeys(("MQTT-3.2.2-9", "MQTT-3.2.2-11", "MQTT-3.2.2-12", "MQTT-3.2.2-13", "MQTT-3.2.2-14"), NEVER_LESS),
        **dict.fromkeys(("MQTT-4.12.0-2", "MQTT-4.12.0-5", "MQTT-4.12.1-1", "MQTT-4.12.1-2"), NO_AUTH),
        **dict.fromkeys(("MQTT-3.15.2-2", "MQTT-3.15.2-3"), NO_AUTH),
        "MQTT-3.1.3-8": "neither broker rejects a Client Identifier; an empty one is given a name (MQTT-3.1.3-6)",
    },
}
