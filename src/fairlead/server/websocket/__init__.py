"""The WebSocket driver: frames, connections and endpoints. `protocol.driver_class` makes the class for uvicorn,
`protocol.run_endpoint` serves one connection."""
