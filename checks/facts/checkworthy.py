"""Which segments state something that documents could confirm or refute. Pure, by closed lists of patterns.

Errs on the side of checking: a segment is left out only when the whole of it is a question, a greeting, an offer of
help, a refusal, a remark about the conversation, or when it has no word and no number. English and Russian, and the
commonest forms of German, French and Spanish; of other languages only questions are recognised, the rest is checked.
"""

from __future__ import annotations

import re

_LONGEST_TALK = 240

_WORD = re.compile(r"[^\W_]")
_QUESTION = re.compile(r"[?？؟][\s\"'”’»)\]*_」』）]*\Z")
_TELLING_QUESTION = re.compile(
    r"\b(?:did you know|do you know that|have you heard|isn't|aren't|wasn't|weren't|doesn't|don't|didn't|right|correct|"
    r"знаете ли вы|знали ли вы|вы знали|разве|не так ли|верно|правда)\b",
    re.IGNORECASE,
)
# What turns a polite sentence into one that may state something.
_TELLS_MORE = re.compile(
    r"\d|[—–;]|: \S|-- |\b(?:but|however|though|although|except|because|whereas|actually|since|while|"
    r"но|однако|хотя|зато|потому|поскольку|кроме|тогда как|на самом деле|aber|mais|pero|sondern)\b",
    re.IGNORECASE,
)

_PREFIX = (
    r"(?:(?:(?:i'm |i am |we're |we are )?(?:very |so |really )?sorry|(?:my )?apologies|i apologi[sz]e|unfortunately|"
    r"к сожалению|увы|извините|простите|прошу прощения|leider|malheureusement|lo siento|as an? (?:ai|language model|"
    r"assistant)[^,]{0,40})[,.!:]?\s*(?:but |но )?){0,2}"
)
_I = r"i(?:'m| am|'ve| have|'d| would)?"
_SOURCES = (
    r"(?:(?:the|these|this|that|any|my|our|your|provided|given|available|retrieved|supplied|relevant|above) )*"
    r"(?:context|documents?|documentation|passages?|sources?|texts?|knowledge base|search results?|materials?)"
    r"(?: (?:provided|given|available|i (?:have|was given)|above))?"
)
_INFORMATION = r"(?:information|details|data|documents?|passages?|sources?|results?|answers?|mention)"
_KNOWING = (
    r"(?:know|find|see|answer|confirm|verify|determine|tell|say|provide|help|locate|access|assist|comment|recall|"
    r"recognize|"
    r"understand|have (?:any |enough |sufficient |specific |the |access to |reliable |further )*"
    r"(?:information|data|details|knowledge|answer|context|documents|that|this|it|access))"
)
_SOURCES_RU = r"(?:\w+(?:ых|их|ом|ой|ем|ей) )*(?:источник|документ|контекст|материал|текст|базе знаний)\w*"
_INFORMATION_RU = r"(?:информаци\w+|данны\w+|сведени\w+|ответ\w*|упоминани\w+|доступ\w*)"

_REFUSALS = (
    r"{i} (?:do not|don't|did not|didn't|cannot|can't|can not|could not|couldn't|was unable to|am unable to|unable to|"
    r"am not able to|not able to|wasn't able to|was not able to) {knowing}\b.*",
    r"{i} (?:am not|not|was not|wasn't) (?:sure|certain|aware|familiar)\b.*",
    r"we (?:do not|don't|did not|didn't|cannot|can't|could not|couldn't) (?:know|find|have (?:any |enough "
    r")?information)\b.*",
    r"there (?:is|are|was|were) (?:no|not enough|insufficient|nothing)\b.* (?:in|within|from|among) {sources}\b.*",
    r"there (?:is|was) (?:no|not enough|insufficient) (?:\w+ )?information\b.*",
    r"{sources} (?:do not|don't|does not|doesn't|did not|didn't) (?:contain|mention|say|specify|provide|include|"
    r"state|cover|"
    r"discuss|answer|give|list|have|tell|address)\b.*",
    r"(?:no|not enough|insufficient) (?:\w+ )?{information}\b.{0,120}\b(?:found|available|provided|given|"
    r"returned)\b.{0,60}",
    r"nothing (?:relevant |about .{1,60} )?(?:was |is )?(?:found|available)\b.{0,80}",
    r"(?:it is|it's|this is|that is) (?:not (?:clear|specified|stated|mentioned)|unclear|unknown) (?:from|in) "
    r"{sources}\b.*",
    r"(?:я )?не (?:знаю|нашёл|нашел|нашла|уверен|уверена|располагаю|обладаю|владею)\b.*",
    r"(?:я )?не (?:могу|смог|смогла) (?:ответить|найти|помочь|подтвердить|сказать|определить|предоставить|"
    r"проверить)\b.*",
    r"мы не (?:знаем|нашли|уверены|располагаем)\b.*",
    r"(?:у меня|у нас) нет (?:\w+ ){0,2}{information_ru}\b.*",
    r"(?:мне|нам) не удалось (?:найти|определить|установить|ответить|получить)\b.*",
    r"не удалось найти (?:\w+ ){0,2}{information_ru}\b.*",
    r"(?:в|во|из) {sources_ru} .{0,80}\b(?:нет|не|отсутству\w+|ничего)\b.*",
    r"{sources_ru} .{0,30}не (?:содерж|упомина|говор|указ|сообща)\w*.*",
    r"{information_ru} .{0,80}\b(?:нет|не найден\w*|не хватает|недостаточно|отсутству\w+)\b.*",
    r"ich weiß (?:es )?(?:leider )?nicht\b.*",
    r"ich (?:kann|konnte|habe) .{0,80}(?:nicht|keine) (?:finden|beantworten|gefunden|informationen|sagen|bestätigen).*",
    r"je ne (?:sais|peux|trouve|dispose)\b.*",
    r"no (?:sé|puedo (?:responder|encontrar|confirmar)|encuentro|encontré|tengo información|dispongo de)\b.*",
)
_TALK = (
    r"(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening|day)|welcome)(?:,? (?:there|all|everyone|again|"
    r"\w+))?",
    r"(?:sure|sure thing|certainly|of course|absolutely|definitely|yes|no|ok|okay|got it|understood|right|great|"
    r"perfect|"
    r"alright|no problem|my pleasure|thanks|thank you|thank you very much|you're welcome|you are welcome|bye|"
    r"goodbye|cheers)"
    r"(?:,? (?:thanks|thank you|sure|certainly|of course|thing))?",
    r"(?:thanks|thank you)(?: very much| so much)? for (?:asking|your (?:question|patience|message|interest|time)|"
    r"reaching out|the question)",
    r"(?:(?:that's|that is|what) an? )?(?:great|good|excellent|interesting|fantastic|wonderful) question",
    r"(?:i|we)(?:'m| am|'re| are|'d be| would be|'ll be| will be)? (?:always )?(?:more than )?(?:happy|glad|pleased|"
    r"delighted|"
    r"here|sorry|excited)(?: to (?:help|assist|answer)\b.{0,60}| about that| for (?:the|any) \w+)?",
    r"how (?:can|may) i (?:help|assist)\b.{0,40}",
    r"(?:i |we )?hope (?:this|that|it) (?:helps?|answers|clarifies|is (?:helpful|useful)|was (?:helpful|"
    r"useful))\b.{0,60}",
    r"(?:please |just )?(?:feel free|do not hesitate|don't hesitate) to (?:ask|reach out|contact|let|share|tell|"
    r"provide|write)"
    r"\b.{0,80}",
    r"(?:please )?(?:just )?let me know\b.{0,140}",
    r"if you(?:'re|'d| are| would| have| need| want| still)\b.{0,100}(?:let me know|feel free|hesitate|happy to "
    r"help|just ask|"
    r"i'm here|here to help)\b.{0,60}",
    r"(?:please )?see (?:below|above|the (?:list|table|details|sources?) (?:below|above))",
    r"(?:here(?:'s| is| are)|below (?:is|are)|the following (?:is|are)) .{0,90}:",
    r"(?:let's|let us) (?:take a look|dive in|begin|start|get started|break (?:it|this) down)\b.{0,40}",
    r"(?:please )?(?:try again(?: later)?|wait a moment|one moment|stay tuned|rephrase your question)(?:,? please)?",
    r"(?:have a (?:great|nice|good) (?:day|time|evening|weekend)|take care|good luck|enjoy|best regards)",
    r"(?:in summary|in short|in conclusion|to sum up|to summari[sz]e|overall|note|sources?|references?|answer|"
    r"summary)[,:]?",
    r"(?:привет|здравствуйте|добрый (?:день|вечер)|доброе утро|приветствую)(?:,? \w+)?",
    r"(?:конечно|разумеется|хорошо|понял|поняла|понятно|да|нет|ладно|отлично|пожалуйста|спасибо|всегда пожалуйста|"
    r"не за что|обращайтесь|до свидания|удачи)(?:,? (?:спасибо|конечно|пожалуйста|обращайтесь))?",
    r"(?:спасибо|благодарю)(?: вам| вас)? за (?:ваш |этот )?(?:вопрос|обращение|внимание|интерес|терпение)\w*",
    r"(?:это )?(?:отличный|хороший|интересный|прекрасный) вопрос",
    r"(?:(?:я|мы) )?(?:буду |будем |всегда )?(?:рад|рада|рады|готов|готова|готовы)(?: вам)? (?:помочь|ответить|"
    r"подсказать|"
    r"помогать)\b.{0,60}",
    r"(?:мне|нам) (?:очень )?жаль",
    r"(?:чем|как) (?:я )?(?:могу|можем) (?:вам )?помочь",
    r"надеюсь,? (?:это|что это|мой ответ|ответ) (?:\w+ )?(?:помо\w+|полез\w+)",
    r"если (?:у вас|вам|есть|остались|возник\w*|нужн\w*)\b.{0,80}(?:обращайтесь|сообщите|дайте знать|спрашивайте|"
    r"пишите)"
    r"\b.{0,40}",
    r"(?:пожалуйста, )?(?:дайте (?:мне )?знать|не стесняйтесь|обращайтесь|спрашивайте)\b.{0,80}",
    r"(?:вот|ниже (?:приведен|приведён|представлен|указан)\w*) .{0,90}:",
    r"(?:gerne|natürlich|hallo|guten tag|bonjour|bien sûr|hola|claro|por supuesto|danke|merci|gracias)(?:,? \w+)?",
    r"(?:ich hoffe, das hilft|j'espère que cela aide|espero que (?:esto )?(?:te |le )?ayude).{0,40}",
)


def _whole(patterns: tuple[str, ...]) -> re.Pattern[str]:
    joined = "|".join(patterns)
    for name, part in (
        ("{i}", _I), ("{sources}", _SOURCES), ("{knowing}", _KNOWING), ("{information}", _INFORMATION),
        ("{sources_ru}", _SOURCES_RU), ("{information_ru}", _INFORMATION_RU),
    ):  # fmt: skip
        joined = joined.replace(name, part)
    return re.compile(
        rf"(?:{joined})[\s.!…,:)\"'\ufe0f\u2600-\u27bf\U0001f300-\U0001faff]*\Z", re.IGNORECASE | re.DOTALL
    )


_SORRY = re.compile(_PREFIX, re.IGNORECASE)
_REFUSAL = _whole(_REFUSALS)
_EMPTY_TALK = _whole(_TALK)
_ENDS_EMPTY = re.compile(r"[\s.!,:]*\Z")
_JOINS = frozenset({"and", "or", "nor", "и", "или", "ни", "und", "et", "y"})
_PLEA = re.compile(
    r"(?:so i|so we|so please|please|sorry|if you|which|what|when|where|who|whom|why|how|whether|если|как\w*|где|когда|"
    r"кто|что|чем|почему|котор\w+|сколько|ли)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"\b(?:is|are|was|were|has|have|had|will|can|cannot|does|did|isn't|aren't|wasn't|founded|born|died|"
    r"является|являются|был|была|было|были|это|имеет|имеют|составляет|ist|sind|war|est|sont|es|son)\b|"
    r"[^\W\d] [—–] [^\W\d]|\d",
    re.IGNORECASE,
)
_NUMBERED_TITLE = re.compile(
    r"(?:(?:step|part|chapter|section|шаг|часть|глава|раздел)\s+)?\d{1,3}[.):]?\s*[^\d]*\Z", re.IGNORECASE
)


def states_something(words: str) -> bool:
    """Whether the plain words of a segment (see `plain`) can be confirmed or refuted; True when in doubt."""
    if not _WORD.search(words):
        return False
    if _QUESTION.search(words):
        return bool(_TELLING_QUESTION.search(words.replace("’", "'")))
    return len(words) > _LONGEST_TALK or not (is_refusal(words) or _is_talk(words))


def title_states_something(title: str) -> bool:
    """The same for a heading: a topic states nothing, a clause does."""
    if not states_something(title):
        return False
    return title.endswith((".", "!", "。")) or (bool(_CLAUSE.search(title)) and not _NUMBERED_TITLE.match(title))


def is_refusal(words: str) -> bool:
    """Whether a sentence only says that the answer is not known or not given."""
    if len(words) > _LONGEST_TALK:
        return False
    words = words.replace("’", "'").strip()
    said = _without_apology(words)
    if _ENDS_EMPTY.match(said):
        return len(said) < len(words)
    if not _REFUSAL.match(said) or _TELLS_MORE.search(said):
        return False
    return all(map(_harmless, said.rstrip(" .,!").split(",")[1:]))


def _harmless(part: str) -> bool:
    """Whether what follows a comma in a refusal is an item of a list or a plea, not a second statement."""
    words = part.casefold().split()
    if len(words) <= 2 or _PLEA.match(part.strip()):
        return True
    return (words[0] in _JOINS and len(words) <= 4) or (words[1] in _JOINS and len(words) == 3)


def _is_talk(words: str) -> bool:
    said = _without_apology(words.replace("’", "'").strip())
    return bool(_EMPTY_TALK.match(said)) and not _TELLS_MORE.search(said.rstrip(":"))


def _without_apology(words: str) -> str:
    found = _SORRY.match(words)
    return words[found.end() :] if found else words
