"""Metrics, tables, figures and curves of trainings and tests."""
