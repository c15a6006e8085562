"""The machine: memories, asynchronous agents, warps, CTAs, clusters and their scheduler.

Each package imports only those above it in this list:

    launch            a launch: kernel, grid, global memory; counts
    formats           number formats, descriptors, tensor maps
    order             happens-before: clocks, accesses, completion of asynchronous work, shadows
    synchronisation   mbarriers, named and cluster barriers, waits for pipes, the register pool
    reports           findings as text
    memory            shared, tensor and global memory, checked by shadows
    topology          cluster, CTA, warp; convergence: the lanes of a warp that execute together
    compiled          data shared by the machine and compiled loads and stores
    agents            TMA, bulk copies, cp.async, tensor cores
    execution         the scheduler, processes, checks at a CTA's end
"""
