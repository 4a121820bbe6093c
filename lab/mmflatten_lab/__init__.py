"""Research with mmflatten: studies, synthetic tasks, linearized models, garment scenes, and a page
to try models.
"""
