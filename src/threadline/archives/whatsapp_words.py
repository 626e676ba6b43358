"""What WhatsApp itself says in an export, in the languages it says it in.

A table per language, because the file holds these sentences as plain text between those of people.
A sentence that is missing here is read as text, or as a notice where nobody is named as its sender;
nothing is lost by it.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from threadline.archives.whatsapp_dates import unmarked
from threadline.core.model import Attachment


class Said(Enum):
    """What a sentence of WhatsApp's own is about."""

    MEMBER = "who is in the group"
    NUMBER = "somebody's new number"
    GROUP = "the group itself"
    NOTICE = "anything else"


class Tongue(NamedTuple):
    """The sentences of one language; `~` stands for a person and never spans a ": "."""

    member: str
    number: str
    group: str
    notice: str
    deleted: str
    omitted: str
    attached: str
    edited: str


TONGUES = (
    Tongue(  # English
        member=r"~ left|~ joined (?:using|from|via|the) .+|~ joined|~ added .+|~ removed .+"
        r"|~ (?:was|were) (?:added|removed)(?: .+)?",
        number=r"~ changed (?:their|your) phone number.*|~ changed to .+",
        group=r"~ created (?:this )?group.*|~ changed (?:the subject|the group|this group's) .+"
        r"|~ deleted this group's .+|You're (?:now|no longer) an admin",
        notice=r"Messages .*end-to-end encrypt.+|Your security code with .+"
        r"|~ turned (?:on|off) disappearing messages.*|~ is a contact\.?|You blocked .+"
        r"|You unblocked .+",
        deleted=r"(?:You deleted this|This) message(?: was deleted(?: by admin .+)?)?",
        omitted=r"(?:image|video|audio|sticker|GIF|document|Contact card|Media) omitted",
        attached=r"file attached",
        edited=r"This message was edited",
    ),
    Tongue(  # Arabic
        member=r"غادر .+|أضاف .+|أزال .+|انضم .+|تمت? إضافت.+",
        number=r"غي?ّ?ر .+ رقم هاتفه\.?.*",
        group=r"أنشأ ~ المجموعة .+|غي?ّ?ر ~ (?:اسم|صورة|وصف) المجموعة.*",
        notice=r"الرسائل والمكالمات مشفرة .+",
        deleted=r"حذفت هذه الرسالة|تم حذف هذه الرسالة",
        omitted=r"تم استبعاد الوسائط",
        attached=r"الملف مرفق",
        edited=r"تم تعديل هذه الرسالة",
    ),
    Tongue(  # German
        member=r"~ hat die Gruppe verlassen|~ hat .+ (?:hinzugefügt|entfernt)"
        r"|~ (?:ist|bist) .+ beigetreten|~ (?:wurde|wurdest) (?:hinzugefügt|entfernt)",
        number=r"~ hat die Telefonnummer gewechselt.*|~ hat zu .+ gewechselt",
        group=r"~ ha(?:t|st) die Gruppe .+ erstellt"
        r"|~ ha(?:t|st) (?:den Gruppennamen|den Betreff|das Gruppenbild|die Gruppen\w+) .+",
        notice=r"Nachrichten .*Ende-zu-Ende-verschlüsselt.+|Deine Sicherheitsnummer .+",
        deleted=r"Du hast diese Nachricht gelöscht|Diese Nachricht wurde gelöscht",
        omitted=r"Medien ausgeschlossen"
        r"|(?:Bild|Video|Audio|Sticker|GIF|Dokument|Kontaktkarte) weggelassen",
        attached=r"Datei angehängt",
        edited=r"Diese Nachricht wurde bearbeitet",
    ),
    Tongue(  # Spanish
        member=r"~ salió(?: del grupo)?|~ (?:añadió|agregó|eliminó) a .+|~ (?:se unió|te unió) .+"
        r"|Se te añadió.*|~ te (?:añadió|agregó)",
        number=r"~ cambió (?:su|de) número.*",
        group=r"~ cre(?:ó|aste) (?:el|este) grupo.*"
        r"|~ cambi(?:ó|aste) (?:el (?:asunto|nombre|ícono)|la (?:imagen|foto|descripción)) .+",
        notice=r"Los mensajes y las llamadas están cifrados .+|Tu código de seguridad con .+",
        deleted=r"Eliminaste este mensaje|Se eliminó este mensaje",
        omitted=r"Multimedia omitido|(?:imagen|audio|sticker|GIF|documento|Video|Vídeo) omitid[oa]",
        attached=r"archivo adjunto",
        edited=r"Se editó este mensaje",
    ),
    Tongue(  # Portuguese
        member=r"~ saiu|~ (?:adicionou|removeu) .+|~ entrou .+|~ foi (?:adicionad|removid).+",
        number=r"~ mudou (?:de|o seu|seu) número.*",
        group=r"~ cri(?:ou|ast?e) o grupo .+|~ mudou (?:o nome|a imagem|a descrição|o ícone) .+",
        notice=r"As mensagens .*criptografia de ponta a ponta.+|Seu código de segurança com .+",
        deleted=r"Você apagou esta mensagem|Mensagem apagada|Esta mensagem foi apagada",
        omitted=r"Mídia oculta|(?:imagem|vídeo|áudio|figurinha|GIF|documento) ocult[oa]",
        attached=r"arquivo anexado",
        edited=r"Mensagem editada",
    ),
    Tongue(  # French
        member=r"~ est parti(?:e|\(e\))?|~ a quitté.*|~ a (?:ajouté|retiré|supprimé) .+"
        r"|~ a rejoint .+|~ avez été ajoutée?.*",
        number=r"~ a changé de numéro.*",
        group=r"~ (?:a|avez) créé le groupe .+"
        r"|~ (?:a|avez) (?:changé|modifié) (?:le nom|le sujet|l['’]icône|la description) .+",
        notice=r"Les messages .*chiffrés de bout en bout.+|Votre code de sécurité avec .+",
        deleted=r"Vous avez supprimé ce message|Ce message a été supprimé",
        omitted=r"Médias omis|(?:image|vidéo) absente|audio omis"
        r"|(?:GIF|sticker|document|image|vidéo)s? (?:omise?|retiré|ignoré)",
        attached=r"fichier joint",
        edited=r"Ce message a été modifié",
    ),
    Tongue(  # Finnish
        member=r"~ poistui|~ lisäsi .+|~ poisti .+|~ liittyi .+",
        number=r"~ vaihtoi puhelinnumeronsa.*",
        group=r"~ loi ryhmän .+|~ (?:vaihtoi|muutti) (?:aiheen|ryhmän) .+",
        notice=r"Viestit ja puhelut ovat täysin salattuja.*",
        deleted=r"Poistit tämän viestin|Tämä viesti poistettiin",
        omitted=r"Media jätettiin pois|(?:kuva|video|ääni) jätettiin pois",
        attached=r"tiedosto liitetty",
        edited=r"Tätä viestiä muokattiin",
    ),
    Tongue(  # Japanese
        member=r"~が退出しました|~が.+を(?:追加|削除)しました|~が.*参加しました",
        number=r"~が電話番号を変更しました.*",
        group=r"~がグループ「.+」を作成しました"
        r"|~がグループ(?:名|アイコン|の説明|の画像).*変更しました",
        notice=r"メッセージと通話はエンドツーエンドで暗号化されています.*",
        deleted=r"このメッセージを削除しました|このメッセージは削除されました",
        omitted=r"メディアは含まれていません|(?:画像|動画|音声)は含まれていません",
        attached=r"ファイル添付",
        edited=r"このメッセージは編集済みです",
    ),
    Tongue(  # Italian
        member=r"~ ha abbandonato.*|~ è uscit[oa]|~ ha (?:aggiunto|rimosso) .+|~ si è unit[oa].*",
        number=r"~ ha cambiato (?:il suo )?numero.*",
        group=r"~ ha creato il gruppo .+|~ ha (?:cambiato|modificato) (?:l['’]\w+|il nome) .+",
        notice=r"I messaggi .*crittografat.+",
        deleted=r"Hai eliminato questo messaggio|Questo messaggio è stato eliminato",
        omitted=r"Media omessi|(?:immagine|video|audio|sticker|GIF|documento) omess[oa]",
        attached=r"file allegato",
        edited=r"Questo messaggio è stato modificato",
    ),
    Tongue(  # Dutch
        member=r"~ heeft de groep verlaten|~ heeft .+ (?:toegevoegd|verwijderd)"
        r"|~ neemt nu deel.*|~ bent toegevoegd",
        number=r"~ heeft een nieuw telefoonnummer.*|~ is overgestapt naar .+",
        group=r"~ heeft (?:de groep|groep) .+ (?:aangemaakt|gemaakt)"
        r"|~ heeft (?:het onderwerp|de groep\w+) .+ gewijzigd.*",
        notice=r"Berichten .*end-to-end versleuteld.+",
        deleted=r"Je hebt dit bericht verwijderd|U hebt dit bericht verwijderd"
        r"|Dit bericht (?:is|werd) verwijderd",
        omitted=r"Media weggelaten|(?:afbeelding|video|audio|sticker|GIF|document) weggelaten",
        attached=r"bestand bijgevoegd",
        edited=r"Dit bericht is bewerkt",
    ),
)

MAX_SENTENCE = 1000
_WHO = r"(?:(?!: ).){1,200}?"
_NAMES = {
    "image": r"jpe?g|png|webp|gif|heic",
    "video": r"mp4|mov|3gp",
    "audio": r"opus|m4a|mp3|aac",
}


def _any(meaning: str) -> str:
    return "|".join(getattr(tongue, meaning) for tongue in TONGUES)


def _sentences(meaning: str) -> re.Pattern[str]:
    return re.compile(f"(?:{_any(meaning).replace('~', _WHO)})\\.?", re.DOTALL)


_OWN = {
    Said.MEMBER: _sentences("member"),
    Said.NUMBER: _sentences("number"),
    Said.GROUP: _sentences("group"),
    Said.NOTICE: _sentences("notice"),
}
_DELETED = re.compile(f"(?:{_any('deleted')})\\.?")
_EDITED = re.compile(f"<(?:{_any('edited')})\\.?>$")
_OMITTED = re.compile(f"<(?:{_any('omitted')})>|(?:[^\n]{{1,300}} )?(?:{_any('omitted')})")
_ATTACHED = re.compile(
    rf"(?P<android>[^\n/\\]{{1,300}}\.\w{{1,8}}) \((?:{_any('attached')})\)"
    r"|<[^<>:\n]{1,30}: ?(?P<ios>[^<>\n/\\]{1,300}\.\w{1,8})>"
)
_KIND = {
    "image": re.compile(r"image|imag|bild|immagine|afbeelding|kuva|画像", re.I),
    "video": re.compile(r"vid[eé]o|vídeo|動画", re.I),
    "audio": re.compile(r"audio|áudio|ääni|音声", re.I),
}


def own(text: str) -> Said | None:
    """What a whole sentence of WhatsApp's own is about; None for all other text."""
    if len(text) > MAX_SENTENCE:
        return None
    text = unmarked(text)
    for said, sentences in _OWN.items():
        if sentences.fullmatch(text):
            return said
    return None


def is_deleted(text: str) -> bool:
    """Whether the text stands where a message was taken back."""
    return len(text) < 100 and _DELETED.fullmatch(unmarked(text)) is not None


def is_edited(text: str) -> bool:
    """Whether the text ends with the mark of an edited message."""
    return text.endswith(">") and _EDITED.search(unmarked(text)) is not None


def attachment(text: str) -> Attachment | None:
    """The file that came with a message, as its first line tells it.

    >>> attachment("IMG-1.jpg (file attached)")
    Attachment(id='', type='image', name='IMG-1.jpg', size=None, url='')
    """
    first = text.partition("\n")[0].rstrip()
    if not (first.endswith((")", ">")) or "\u200e" in first):
        return None
    line = unmarked(first)
    if found := _ATTACHED.fullmatch(line):
        # Only the mark tells the tag of an iPhone from the same words of a person.
        if found["ios"] is None or text.startswith("\u200e"):
            name = found["android"] or found["ios"]
            ending = name.rpartition(".")[2]
            for kind, endings in _NAMES.items():
                if re.fullmatch(endings, ending, re.I):
                    return Attachment(type=kind, name=name)
            return Attachment(type="file", name=name)
        return None
    if _OMITTED.fullmatch(line) and (line.startswith("<") or "\u200e" in first):
        for kind, words in _KIND.items():
            if words.search(line) and not line.startswith("<"):
                return Attachment(type=kind)
        return Attachment(type="file")
    return None
