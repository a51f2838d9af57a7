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


def test_that_nothing_would_be_learned_before_the_run_stops() -> None:
    note = "Goes on beyond --stop-steps 900 until learning starts, with 1,000 (--learning-starts)."
    plain = {"preset": "none", "stop_steps": "900"}
    assert note_of(chosen(["dqn", "--env", "Acrobot-v1"], plain)).endswith(note)
    assert note_of(chosen(["dqn", "--env", "Pendulum-v1", "--learning-starts", "900"], plain)) == ""
    assert note not in note_of(chosen(["ppo"], plain))


def test_folders_are_called_as_algorithms_are() -> None:
    assert name_of(chosen(["ppo_dqn"])) == "ppo_dqn-MultiCartPole"
    assert name_of(chosen(["apex-td3", "--env", "Pendulum-v1"])) == "apex_td3-Pendulum-v1"
