"""The shortest tour: a pool with a limit, a block in stream order, figures, a failure that explains
itself. Runs anywhere: without a GPU the host backend serves it.
"""

import cenote


def main() -> None:
    with cenote.Pool(limit="64MiB", name="example") as pool:
        with pool.alloc("4MiB") as block:
            print(f"{block.size} bytes at {block.ptr:#x}")
            try:
                pool.alloc("1GiB")
            except cenote.OutOfMemoryError as error:
                print(f"1 GiB more: {error}")
        stats = pool.stats
        print(f"live {stats.live_bytes}, held {stats.held_bytes} bytes")
        print(f"given back: {pool.trim().returned_bytes} bytes")


if __name__ == "__main__":
    main()
