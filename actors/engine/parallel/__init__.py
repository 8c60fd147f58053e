"""One model on several devices: a process a rank, behind the passes that the loop steps anyway.

The engine's process keeps text encoders, VAE, schedulers and every row's latents; the ranks hold the denoiser alone.
``RankPasses`` (``passes.py``) is what ``LatentModel`` steps with: it hands a step's inputs to ``Ranks``
(``supervising.py``), which has a ``Group`` (``group.py``) of processes and replaces it when one is lost. As no row has
changed by then, the step is just taken again: jobs, leases, progress, cancel, batches and checkpoints are those of one
device.

What is spread how is a *kind* (``kinds.py``), in two halves:

- a ``Plan`` in the engine's process: which ``Order`` each rank gets for a step, and how their answers become the
  outputs of its passes;
- a ``Program`` in each rank (``programs.py``): ``load`` is called once, with its ``Seat`` (rank, device, settings),
  when the process group is there, and tells the bytes of its weights; ``run`` does an order and gives the tensors that
  the order wants. Tensors of an order are the program's own. Whatever it keeps from one order to the next is lost with
  its process; the plan hears of a new group by ``Plan.begin``.

``Order.note`` carries plain values from plan to program: which rows, at which step. A kind is added by one line in
``kinds.KINDS``.

Faults. A rank that dies, is stopped or cut off shows itself by its closed pipe, by the beats that it fails to write to
shared memory, by an exchange that runs into the process group's timeout, or by the step's own bound. The group is then
killed as a whole, and a new one made in a folder of its own: no port is agreed on beforehand, and shared memory has no
name, so that nothing of a dead group is in the way. Ranks die with the process that
made them (``births.py``, ``rank.py``).
"""
