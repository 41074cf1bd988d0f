"""The Grafana dashboards, as code: `make dashboards` writes them to `grafana/dashboards`."""
