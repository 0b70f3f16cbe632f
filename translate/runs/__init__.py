"""A run directory: its contents, and how it is written and read safely. It can be copied anywhere and still translates.

    config.yaml                        the resolved config, with every default
    run.json                           format, versions, command, date
    tokenizer/                         SentencePiece models
    SHA256SUMS                         checksums of these text files and models
    checkpoints/best.safetensors       the weights that scored best on validation
    checkpoints/last.safetensors       weights, optimizer and everything else that `--resume` needs
    checkpoints/previous.safetensors   the checkpoint before the last one, in case the last one is damaged
    metrics.jsonl                      one line for each log entry and validation
    log.txt                            all messages of training, with the time
    evaluation/NAME/                   hypotheses and scores of a test set
    export/                            the model converted for other engines that were used
    lock                               held by the process that trains

A file is flushed to the disk before it gets its name. Reading one runs no code: tensors are safetensors, the rest text.
"""
