"""What is said of a run that nobody asked for, and what its folder is called."""

from __future__ import annotations

from tflow.commands.choice import chosen
from tflow.commands.runs import name_of, note_of

SOLVED = "Trains on beyond the return of 475, at which CartPole-v1 is solved (--stop-return 475 stops there)."


def test_that_the_run_goes_on_when_the_env_is_solved() -> None:
    plain = {"preset": "none"}
    assert note_of(chosen(["ppo"], {**plain, "stop_steps": "100"})) == SOLVED
    assert note_of(chosen(["ppo"], {**plain, "stop_time": "5"})) == SOLVED
    assert note_of(chosen(["ppo"], plain)) == "", "then it stops there"
    assert note_of(chosen(["ppo"], {**plain, "stop_steps": "100", "stop_return": "400"})) == ""
    assert note_of(chosen(["ppo", "--env", "Pendulum-v1"], {**plain, "stop_steps": "100"})) == "", "it has no threshold"


def test_folders_are_called_as_algorithms_are() -> None:
    assert name_of(chosen(["ppo_dqn"])) == "ppo_dqn-MultiCartPole"
    assert name_of(chosen(["apex-td3", "--env", "Pendulum-v1"])) == "apex_td3-Pendulum-v1"
