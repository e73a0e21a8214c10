"""A sweep: every combination of some options, next to the default method and to no curriculum.

python examples/sweep.py
"""

import geodesic as gd


def main(steps=60_000, out="runs/sweep", seeds=3, **options):
    methods = ["gradient:step=0.1|0.2:window=10|20", "auto", "target-only"]
    result = gd.compare("maze", methods, steps=steps, seeds=seeds, out=out, **options)
    print(result.table(), result.verdict(), sep="\n")
    return result


if __name__ == "__main__":
    main()
