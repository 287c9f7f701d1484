"""The data room: text becomes token rows in MindRecord files, once, and is found again by its content.

The launcher talks to :mod:`mindrecipe.data.api` only. The way of a text, one module a step::

    sources, stdlib   which files there are                      texts     files -> texts (UTF-8, JSON lines, Parquet)
    digests           what is in them, hashed once               split     which side of train | held-out a text is on
    tokenizer, bpe    texts -> ids                               pack      ids -> rows of seq_length + 1
    mindrecord        rows -> MindRecord (imports mindspore)     cache     entries, locks, atomic publishing
    encode            tokenizing, beside the builder             words     words met before are not tokenized again
    build             all of it, in a process of its own         recordfile, inspect   ready MindRecords, read without mindspore
"""
