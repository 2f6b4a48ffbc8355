"""Whether an issue takes itself back: its title claims a defect, its body ends by finding none. Pure, closed lists.

Errs on the side of "no": a sentence with a condition (`if`, `unless`), an objection (`but`, `however`) or a demand
(`should`, `consider`) after the withdrawal is none, and neither is a withdrawal of a part. English only.
"""

from __future__ import annotations

import re

_CODE = re.compile(r"(`{3,}|~{3,}).*?(?:\1|\Z)", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+|\n+")
_WHOLE = (
    r"(?:so |thus |hence |therefore |overall |in fact |actually |then |conclusion |verdict |result |"
    r"after (?:re-?checking|re-?reading|review|further review|verification) |(?:on|upon) (?:closer|second|further) "
    r"(?:inspection|look|review|thought|reading) |never ?mind |scratch that |correction |wait )*"
)
_SUBJECT = (
    r"(?:this|it|that|the code|the (?:current )?(?:implementation|behaviou?r|code|logic|change)|everything|there)"
)
_WITHDRAWAL = re.compile(
    rf"\A{_WHOLE}(?:"
    r"(?:there (?:is|are|was) |i (?:see|find|found) )?no(?: actual| real| further)? "
    r"(?:issues?|bugs?|defects?|problems?)(?: here| found| exists?| in this code| after all| with this code)?|"
    rf"{_SUBJECT} (?:is|was|are)(?: actually| in fact| really| therefore)* (?:not|no) (?:an? |any )?"
    r"(?:actual |real |genuine )?(?:issue|bug|defect|problem|concern|error)(?: here| after all| at all)?|"
    rf"{_SUBJECT} (?:isn't|isnt|ain't)(?: actually| really)* (?:an? )?(?:actual |real )?(?:issue|bug|defect|problem)"
    r"(?: here| after all| at all)?|"
    rf"{_SUBJECT} (?:is|looks|seems|appears to be)(?: actually| in fact| therefore)* "
    r"(?:correct|fine|ok|okay|safe|intended)(?: as(?: it)? is| as written| after all| here)?"
    r"(?: no (?:action|change|fix) (?:is )?(?:needed|required|necessary))?|"
    rf"{_SUBJECT} (?:is|was) a false (?:positive|alarm)|false (?:positive|alarm)|"
    r"(?:please )?(?:disregard|ignore) this (?:issue|comment|finding|remark)|"
    r"(?:this (?:issue|comment|finding|remark) (?:is|can be) )?(?:withdrawn|retracted)|"
    r"i(?:'ll| will)? (?:withdraw|retract) this(?: issue| comment| finding)?|"
    r"(?:so )?no (?:action|changes?|fix) (?:is |are )?(?:needed|required|necessary)(?: here)?"
    r")\Z"
)
_DEMANDS = re.compile(
    r"\b(?:if|unless|until|otherwise|but|however|although|though|except|should|must|consider|recommend|suggest|ensure|"
    r"still|yet|please add|add|replace|rename|remove|only|currently|for now)\b",
    re.IGNORECASE,
)
_WITHDRAWN_TITLE = re.compile(
    r"\A\W*(?:no (?:issue|bug|defect|problem)s?(?: found| here)?|false positive|withdrawn|retracted|n/?a|not an? "
    r"(?:issue|bug|defect|problem))\W*\Z",
    re.IGNORECASE,
)
_LAST = 2


def retraction(title: str, body: str) -> str | None:
    """The sentence in which an issue withdraws itself, verbatim, or None."""
    if _WITHDRAWN_TITLE.match(title):
        return title.strip()
    plain = _CODE.sub(" ", body[-4000:])
    sentences = [s.strip() for s in _SENTENCE.split(plain) if re.search(r"\w", s)]
    for place in range(len(sentences) - 1, max(-1, len(sentences) - 1 - _LAST), -1):
        words = re.sub(r"[^a-z'/ -]+", " ", sentences[place].lower().replace("’", "'"))
        if _WITHDRAWAL.match(" ".join(words.replace("-", " ").split())):
            after = " ".join(sentences[place + 1 :])
            before = " ".join(sentences[max(0, place - 1) : place])
            # A demand after it, or a condition just before it ("If the caller checks: no issue."), keeps the issue.
            if _DEMANDS.search(after) or re.search(r"\b(?:if|unless|when|assuming)\b[^.]*\Z", before, re.IGNORECASE):
                return None
            return sentences[place]
    return None
