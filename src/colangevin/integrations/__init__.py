"""The library inside of training frameworks: `integrations.lightning` and `integrations.transformers`."""
