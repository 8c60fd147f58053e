"""Asynchronous denoising: a denoiser cut into stages that all work at once, each on what the last step left it.

AsyncDiff, https://arxiv.org/abs/2406.06911. It is lossy, and the only kind that fits models which no exact kind splits.

- ``tracing.py`` runs a denoiser without weights and tells its *blocks*, in the order in which they run, and which
  tensors of earlier blocks each of them needs: by marks in autograd's graph, so that no class of model is told apart.
- ``timing.py`` times each block, ``cutting.py`` cuts their line into stages of about the same time: a ``Split``, from
  which follows what goes from which stage to which. ``telling.py`` is its graph for people and files, with warnings.
- ``share.py`` loads the weights of one stage and no others; ``stage.py`` runs the model's own ``forward`` with the
  blocks of other stages left out: what they would give is received, or of no matter.
- ``program.py`` is the rank's half of the kind, with its exchanges (``exchange.py``); ``gang.py`` the engine's, which
  says when a step is exact.
"""
