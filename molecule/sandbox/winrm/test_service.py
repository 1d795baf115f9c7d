"""Shells, commands and quotas."""

import os
import threading

import pytest
from conftest import fault_of, message
from winrm_endpoint.soap import SHELL

NO_SUCH, TIMED_OUT, ABORTED, BUSY, CLOSED = 2150858843, 2150858793, 995, 1359, 2147942632


def test_a_command_says_what_it_has_to_and_its_code(tester):
    shell = tester.create()
    assert tester.output(shell, tester.command(shell, "echo one; echo two; exit 7")) == (b"one\ntwo\n", 7)


def test_the_runner_s_code_has_32_bits(tmp_path):
    from conftest import Tester
    from winrm_endpoint.limits import Limits
    from winrm_endpoint.service import Service
    from winrm_endpoint.shell import Runner

    tester = Tester(Service(Runner(["/bin/sh", "-c"], str(tmp_path), str(tmp_path) + "/"), Limits(), "192.0.2.2"))
    shell = tester.create()
    assert tester.output(shell, tester.command(shell, "echo 3221225477 &gt;$WINHOST_RESULT_FILE; exit 5"))[1] == 0xC0000005
    assert os.listdir(tmp_path) == []


def test_binary_input_passes_through_many_sends_and_several_streams_in_one(tester):
    content = os.urandom(3_000_000)
    shell = tester.create()
    command = tester.command(shell, "cat")
    collected = []
    reader = threading.Thread(target=lambda: collected.append(tester.output(shell, command)))
    reader.start()
    for start in range(0, len(content), 300_000):
        assert tester.send(shell, command, content[start : start + 300_000])[0] == 200
    streams = "".join(f'<rsp:Stream Name="stdin" CommandId="{command}" {last}</rsp:Stream>' for last in (">YQ==", 'End="true">Y g\n=='))
    tester.good(message(SHELL + "/Send", f"<rsp:Send>{streams}</rsp:Send>", shell))
    reader.join()
    assert collected == [(content + b"ab", 0)]


def test_input_that_is_not_base64_is_a_fault(tester):
    shell = tester.create()
    command = tester.command(shell, "cat")
    body = f'<rsp:Send><rsp:Stream Name="stdin" CommandId="{command}">not base64!</rsp:Stream></rsp:Send>'
    assert fault_of(tester.say(message(SHELL + "/Send", body, shell))) == 2150858817
    other = body.replace("stdin", "pr").replace("not base64!", "")
    assert fault_of(tester.say(message(SHELL + "/Send", other, shell))) == 2150858810


def test_a_console_s_input_is_not_binary(tester):
    shell = tester.create()
    command = tester.command(shell, "cat", '<w:Option Name="WINRS_CONSOLEMODE_STDIN">TRUE</w:Option>')
    tester.send(shell, command, b"before\x1aafter")
    assert tester.output(shell, command) == (b"before", 0)


def test_answers_keep_to_the_envelope_that_the_client_takes(tester):
    shell = tester.create()
    command = tester.command(shell, "head -c 2000000 /dev/zero")
    for size in (8192, 153600, 512_000):
        status, answer = tester.receive(shell, command, message_id="", header=f"<w:MaxEnvelopeSize>{size}</w:MaxEnvelopeSize>")
        assert status == 200 and len(answer) <= size


def test_a_receive_without_output_times_out_and_loses_nothing(tester):
    shell = tester.create()
    command = tester.command(shell, "cat")
    assert fault_of(tester.receive(shell, command, timeout="PT0.1S")) == TIMED_OUT
    tester.send(shell, command, b"late", end=True)
    assert tester.output(shell, command) == (b"late", 0)


def test_a_receive_is_answered_again_for_who_lost_the_answer(tester):
    shell = tester.create()
    command = tester.command(shell, "cat")
    tester.send(shell, command, b"once")
    first, again = tester.receive(shell, command, message_id="uuid:a"), tester.receive(shell, command, message_id="uuid:a")
    assert first[0] == 200 and b"b25jZQ==" in first[1] and b"b25jZQ==" in again[1]
    assert fault_of(tester.receive(shell, command, message_id="uuid:b", timeout="PT0.1S")) == TIMED_OUT


def test_a_receive_that_is_being_answered_is_not_answered_twice(tester):
    shell = tester.create()
    command = tester.command(shell, "cat")
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(tester.receive(shell, command, message_id="uuid:a")))
    waiting.start()
    while True:  # until the first is under way, the second is the first, and times out
        code = fault_of(tester.receive(shell, command, message_id="uuid:a", timeout="PT0.05S"))
        if code == BUSY:
            break
        assert code == TIMED_OUT
    tester.send(shell, command, b"x", end=True)
    waiting.join()
    assert answers[0][0] == 200 or fault_of(answers[0]) == BUSY


def test_a_send_that_nobody_reads_times_out_and_goes_in_when_there_is_room(tester, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    shell = tester.create()
    command = tester.command(shell, f"cat {gate} &gt;/dev/null; cat | wc -c")
    sends = 0
    while True:
        sends += 1
        answer = tester.send(shell, command, bytes(300_000), timeout="PT0.2S")
        if answer[0] == 500:
            assert fault_of(answer) == TIMED_OUT
            break
    gate.write_bytes(b"")
    assert tester.send(shell, command, end=True)[0] == 200
    assert int(tester.output(shell, command)[0]) == sends * 300_000


def test_input_for_a_program_that_takes_none_is_a_fault(tester):
    shell = tester.create()
    command = tester.command(shell, "exec &lt;&amp;-; sleep 1000")
    while (answer := tester.send(shell, command, b"x"))[0] == 200:
        pass
    assert fault_of(answer) == CLOSED


def test_terminate_ends_a_command_and_who_waits_for_it(tester, tmp_path):
    shell = tester.create()
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    command = tester.command(shell, f"(echo $$ &gt;{pid}; exec sleep 1000)")
    with open(pid, encoding="ascii") as file:
        number = int(file.read())
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(tester.receive(shell, command)))
    waiting.start()
    assert tester.signal(shell, command)[0] == 200
    waiting.join()
    assert fault_of(answers[0]) in (ABORTED, NO_SUCH)  # the second if the signal was faster
    assert fault_of(tester.receive(shell, command, message_id="")) == NO_SUCH
    until_gone(number)


def test_deleting_a_shell_ends_its_commands(tester, tmp_path):
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    shell = tester.create()
    tester.command(shell, f"echo $$ &gt;{pid}; sleep 1000; true")
    with open(pid, encoding="ascii") as file:
        number = int(file.read())
    assert tester.delete(shell)[0] == 200
    assert fault_of(tester.delete(shell)) == NO_SUCH
    until_gone(number)


def until_gone(number):
    """The endpoint is this process: what it started is a zombie until its thread reaps it."""
    while os.path.exists(f"/proc/{number}"):
        pass


@pytest.mark.limits(least_idle_timeout=0.05)
def test_a_shell_that_nobody_uses_ends_and_a_used_one_does_not(tester):
    body = "<rsp:Shell><rsp:IdleTimeOut>PT0.1S</rsp:IdleTimeOut></rsp:Shell>"
    used, unused = tester.create(body), tester.create(body)
    command = tester.command(used, "cat")
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(tester.receive(used, command)))  # longer than the idle timeout
    waiting.start()
    while unused in tester.service._shells._shells:  # asking for it would be using it
        pass
    assert fault_of(tester.delete(unused)) == NO_SUCH
    assert tester.send(used, command, b"still here", end=True)[0] == 200
    waiting.join()
    assert answers[0][0] == 200


@pytest.mark.limits(shells=3)
def test_a_user_has_so_many_shells(tester):
    shells = [tester.create() for _ in range(3)]
    from winrm_endpoint.soap import TRANSFER

    assert fault_of(tester.say(message(TRANSFER + "/Create", "<rsp:Shell/>"))) == 2150859173
    tester.delete(shells[0])
    tester.create()


@pytest.mark.limits(processes=2)
def test_a_shell_has_so_many_running_commands(tester):
    shell = tester.create()
    commands = [tester.command(shell, "cat") for _ in range(2)]
    body = "<rsp:CommandLine><rsp:Command>cat</rsp:Command></rsp:CommandLine>"
    assert fault_of(tester.say(message(SHELL + "/Command", body, shell))) == 2150859241
    tester.send(shell, commands[0], end=True)
    tester.output(shell, commands[0])
    tester.command(shell, "cat")


@pytest.mark.limits(operations=3)
def test_commands_that_were_not_signalled_count_as_operations(tester):
    shell = tester.create()
    first = tester.command(shell, "true")
    tester.output(shell, first)
    tester.command(shell, "true")
    tester.command(shell, "true")
    assert fault_of(tester.receive(shell, first)) == 2150859174
    # As on Windows, nothing but the shell's end helps then, and that is an operation too: the idle timeout.
