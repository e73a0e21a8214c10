"""Load a trained policy from its run folder and film it on the target."""

from pathlib import Path

from PIL import Image

import geodesic as gd


def main(steps=60_000, out="runs/film"):
    result = gd.train("maze", "gradient:step=0.2", steps=steps, out=out)  # loads a finished run
    env, policy = result.task.make(render_mode="rgb_array"), result.policy(seed=0, stochastic=True)
    obs, _ = env.reset(seed=0)
    frames, ended = [env.render()], False
    while not ended:
        obs, _, terminated, truncated, _ = env.step(policy(obs))
        frames.append(env.render())
        ended = terminated or truncated
    film = Path(out) / "target.gif"
    first, *rest = [Image.fromarray(frame) for frame in frames]
    first.save(film, save_all=True, append_images=rest, duration=1000 // env.metadata["render_fps"], loop=0)
    return film


if __name__ == "__main__":
    print(f"wrote {main()}")
