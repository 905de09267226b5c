"""The OpenAI Realtime protocol (GA), served."""
