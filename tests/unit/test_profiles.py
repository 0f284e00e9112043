"""The profiles that come with cnibench: each can be built, says where its datapath comes from, and
carries its study's figures.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from cnibench.clusters.lab.builders.base import builder_of
from cnibench.errors import InputError, UsageError
from cnibench.model import profile as profiles
from cnibench.model.profile import FOLDER, Profile, builtin, choose, read_profile, schema_text

# Table I of qi2021: network model, policy (Kubernetes, third party), (ingress, egress), default
# MTU.
TABLE_I = {
    "flannel": ("hybrid", (False, False), (False, False), 1450),
    "calico-wp-ipip": ("L3", (True, True), (True, True), 1440),
    "kube-router": ("hybrid", (True, False), (True, False), 1500),
}
STUDIED = {
    "Flannel",
    "Flannel-off",
    "Kube-router",
    "Calico-wp-ipip",
    "Calico-np-ipip",
    "Calico-wp-xsub",
    "Calico-np-xsub",
}


def test_schema_is_current() -> None:
    assert (FOLDER / "schema.json").read_text() == schema_text(), (
        "run: python -m cnibench.model.profile"
    )


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    """Of the profiles' schema, which is checked once."""
    schema = json.loads((FOLDER / "schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("name", sorted(builtin()))
def test_profile(name: str, validator: Draft202012Validator) -> None:
    profile = builtin()[name]
    data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    validator.validate(data)
    assert len(profile.summary) > 40
    assert profile.sources or profile.features.network_model == "host"
    for source in profile.sources:
        assert source.url.startswith("https://")
    if profile.datapath:
        builder_of(profile)  # the model is there and takes the options


def test_table_one_of_the_study() -> None:
    for name, (model, policy, ways, mtu) in TABLE_I.items():
        features = builtin()[name].features
        assert features.network_model == model
        assert (features.policy.kubernetes, features.policy.third_party) == policy
        assert (features.policy.ingress, features.policy.egress) == ways
        assert features.default_mtu == mtu


def test_each_system_of_the_study_has_one_profile() -> None:
    names = [
        profile.studies["qi2021"] for profile in builtin().values() if "qi2021" in profile.studies
    ]
    assert len(names) == len(set(names))
    assert set(names) >= STUDIED
    # The study's "np" has no Calico chains: the chainless model stands for it, not Calico's
    # default.
    assert builtin()["calico-bare-xsub"].studies["qi2021"] == "Calico-np-xsub"


def test_encapsulation_goes_with_mode_and_need() -> None:
    for name, profile in builtin().items():
        if profile.datapath is None:
            continue
        overlay = profile.datapath.encapsulation != "none"
        if profile.features.mode != "none":
            assert overlay == (profile.features.mode == "overlay"), name
        if profile.datapath.encapsulation in ("vxlan", "ipip"):
            assert (
                profile.datapath.overhead
                == {"vxlan": 50, "ipip": 20}[profile.datapath.encapsulation]
            )
        if profile.datapath.encapsulation == "ipip":
            assert "ipip" in profile.datapath.needs
            own = profile.datapath.pod_mtu == "wire"
            assert own == (profile.features.default_mtu == 1500), name


def test_choosing() -> None:
    assert set(choose(["calico-wp-*"])) == {"calico-wp-ipip", "calico-wp-vxlan", "calico-wp-xsub"}
    assert list(choose(["base=flannel,flannel-host-gw"])) == ["base", "flannel-host-gw"]
    with pytest.raises(UsageError, match="flanel") as error:
        choose(["flanel"])
    for given in (["flannel,flannel"], ["flannel", "flannel"], ["a=flannel,a=flannel"]):
        with pytest.raises(UsageError, match="is named twice"):
            choose(given)
    assert list(choose(["a=flannel,b=flannel"])) == ["a", "b"]
    assert "flannel" in choose(["flannel,flannel*"])
    assert "flannel" in error.value.remedy


def test_a_profile_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of fifty files a command needs one or two."""
    read: list[str] = []

    def noted(path: Path) -> Profile:
        read.append(path.stem)
        return read_profile(path)

    monkeypatch.setattr(profiles, "read_profile", noted)
    shipped = profiles.builtin.__wrapped__()
    assert "flannel" in shipped
    assert len(shipped) == len(builtin()) > 50
    assert list(shipped) == sorted(shipped)
    assert read == []
    assert shipped["flannel"] is shipped["flannel"]
    assert read == ["flannel"]


HOSTILE = {
    "extra key": "schema: 1\ntitle: x\ncni: x\nsummary: x\nunknown: 1\n",
    "wrong type": (
        "schema: 1\ntitle: [x]\ncni: x\nsummary: x\nfeatures: {network_model: L3, mode: none,"
        " default_mtu: many}\n"
    ),
    "aliases": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "twice": "schema: 1\nschema: 1\n",
    "python object": "schema: !!python/object/apply:os.system ['true']\n",
    "not a mapping": "- 1\n- 2\n",
    "newer": "schema: 2\ntitle: x\ncni: x\nsummary: x\n",
    "named": "name: other\nschema: 1\n",
    "deep": "[" * 5000,
    "binary": "\x00\x01",
    "empty": "",
}


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_hostile_files_are_refused_with_their_name(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(HOSTILE[kind])
    with pytest.raises(InputError) as error:
        read_profile(path)
    assert "mine.yaml" in error.value.message
    assert error.value.exit_code == 2
    assert len(error.value.message) < 2000


def test_a_builder_refuses_options_that_it_does_not_know() -> None:
    flannel = builtin()["flannel"]
    assert flannel.datapath
    for options in ({"backend": "carrier-pigeon"}, {"unheard": 1}):
        broken = flannel.model_copy(
            update={"datapath": flannel.datapath.model_copy(update={"options": options})}
        )
        with pytest.raises(InputError, match=next(iter(options))):
            builder_of(broken)


def test_a_model_that_is_not_there() -> None:
    flannel: Profile = builtin()["flannel"]
    assert flannel.datapath
    broken = flannel.model_copy(
        update={"datapath": flannel.datapath.model_copy(update={"model": "pigeon"})}
    )
    with pytest.raises(InputError, match="pigeon") as error:
        builder_of(broken)
    assert "flannel" in error.value.remedy
