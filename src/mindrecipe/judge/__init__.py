"""Judgement: runs read, listed, compared with a baseline, reported, diagnosed. Reads run directories; imports no mindspore."""
